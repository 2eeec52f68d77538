"""A pipeline that a test makes up, for the server of pages and for a browser."""

from typing import Any

from sparkbeam.observe.collection.notes import Note
from sparkbeam.observe.collection.recent_batches import SecondSummary
from sparkbeam.observe.page.view import PageContent, StageView

HOSTILE = "<img src=x onerror=document.title='owned'>$nonce & \"x\""
LONG = 30 * "a_very_long_word_"


class Shown:
    """A pipeline with hostile and long texts.

    Attributes:
        failure: what its figures raise.
        asked: how often somebody has asked for its figures.
    """

    title = f"</script>{HOSTILE} {LONG}"
    graph = '<div><style>b{width:900px}</style><b data-stage="s0"></b></div>'
    over = False
    failure: Exception | None = None
    asked = 0

    def content(self) -> dict[str, Any]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        cells = (LONG, "1", "2", "0.1 s", "3 B", f"elements: it calls {HOSTILE}")
        facts = (("elements", "1,234"), (HOSTILE, LONG), ("separator", "\u2028"))
        stage = StageView("s0", HOSTILE, "running", facts, (HOSTILE,), 1, 2, (cells,) * 3)
        return PageContent(
            "DONE" if self.over else "RUNNING",
            self.over,
            facts,
            (stage,) * 3,
            (Note(HOSTILE, LONG, 2, 1e9),),
            HOSTILE + LONG,
            partitions=((LONG, "3", "1,234", "0.125", "100", HOSTILE),) * 2,
        ).content(str)

    def history(self, since: int) -> list[SecondSummary]:
        moments = (SecondSummary(100 + time, time, 1, 10 * time, 0.5, 1.0) for time in range(40))
        return [moment for moment in moments if moment.time >= since]
