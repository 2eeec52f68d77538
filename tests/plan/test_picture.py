"""Plans as pictures: what is in them, and that nothing lies on top of something else."""

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from plans import FORMATS, chain, fan_out, stage, tangle

from sparkbeam.explain import picture
from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.plan.model import Exchange, Plan
from sparkbeam.plan.row_formats import KeyedRows, RowFormat

SVG = "{http://www.w3.org/2000/svg}"
PLANS = {
    "one stage": chain(1),
    "chain of 60": chain(60),
    "fan-out to 40": fan_out(40),
    "tangle of 60": tangle(60),
}

Rectangle = tuple[float, float, float, float]
Point = tuple[float, float]


class Drawing:
    """An SVG picture, taken apart."""

    def __init__(self, plan: Plan) -> None:
        self.root = ET.fromstring(picture.svg(plan))

    def of_class(self, name: str) -> list[ET.Element]:
        return [e for e in self.root.iter() if name in (e.get("class") or "").split()]

    def texts(self, name: str) -> list[str]:
        return [element.text or "" for element in self.of_class(name)]

    def stages(self) -> dict[str, ET.Element]:
        """The groups of elements that show one stage each, by its id."""
        return {
            (group.find(f"{SVG}text[@class='id']").text or ""): group  # type: ignore[union-attr]
            for group in self.root.iter(f"{SVG}g")
            if group.find(f"{SVG}rect[@class='box']") is not None
        }

    def boxes(self) -> dict[str, Rectangle]:
        """Left, top, right and bottom of the boxes, in the graph's coordinates."""
        found = {}
        for id, group in self.stages().items():
            x, y = numbers(group.get("transform"))
            rect = group.find(f"{SVG}rect[@class='box']")
            assert rect is not None
            top = y + float(rect.get("y", "0"))
            width, height = float(rect.get("width", "0")), float(rect.get("height", "0"))
            found[id] = (x, top, x + width, top + height)
        return found

    def edges(self) -> list[tuple[str, list[Point]]]:
        """The kinds of the lines between stages, and points on their way."""
        (graph,) = [g for g in self.root.iter(f"{SVG}g") if g.find(f"{SVG}g") is not None] or [
            ET.Element("g")
        ]
        return [
            ((path.get("class") or "").split()[1], list(points(path.get("d") or "")))
            for path in graph.findall(f"{SVG}path")
        ]


def numbers(text: str | None) -> list[float]:
    return [float(n) for n in re.findall(r"-?[\d.]+", text or "")]


def points(path: str) -> Iterator[Point]:
    """Some points of a path that moves, goes down, and bends."""
    x = y = 0.0
    for command, rest in re.findall(r"([MVC])([^MVC]*)", path):
        values = numbers(rest)
        if command == "M":
            x, y = values
        elif command == "V":
            yield from ((x, y + (values[0] - y) * t / 20) for t in range(20))
            y = values[0]
        else:
            xs, ys = [x, *values[::2]], [y, *values[1::2]]
            yield from ((bezier(xs, t / 20), bezier(ys, t / 20)) for t in range(20))
            x, y = values[-2:]
        yield x, y


def bezier(values: list[float], t: float) -> float:
    a, b, c, d = values
    return a * (1 - t) ** 3 + 3 * b * t * (1 - t) ** 2 + 3 * c * t**2 * (1 - t) + d * t**3


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
class TestAnyPlan:
    def test_there_is_one_box_for_each_stage(self, plan: Plan) -> None:
        assert list(Drawing(plan).stages()) == [stage.id for stage in plan.stages]

    def test_boxes_do_not_overlap(self, plan: Plan) -> None:
        for one, other in itertools.combinations(Drawing(plan).boxes().values(), 2):
            apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
            assert apart

    def test_lines_do_not_run_under_boxes(self, plan: Plan) -> None:
        drawing = Drawing(plan)
        boxes = drawing.boxes().values()
        for _, way in drawing.edges():
            for x, y in way:
                assert not any(b[0] < x < b[2] and b[1] < y < b[3] for b in boxes)

    def test_stages_stand_below_those_that_they_read(self, plan: Plan) -> None:
        boxes = Drawing(plan).boxes()
        for reader in plan.stages:
            for tag in (*reader.inputs, *(t for s in reader.side_inputs for t in s.sources)):
                assert boxes[plan.producer(tag).id][3] < boxes[reader.id][1]

    def test_it_fits_a_screen_of_1280_pixels(self, plan: Plan) -> None:
        assert float(Drawing(plan).root.get("width", "0")) <= 1280

    def test_everything_is_within_the_picture(self, plan: Plan) -> None:
        drawing = Drawing(plan)
        width, height = (float(drawing.root.get(side, "0")) for side in ("width", "height"))
        places = [(x, y) for box in drawing.boxes().values() for x, y in (box[:2], box[2:])]
        places += [point for _, way in drawing.edges() for point in way]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_the_same_plan_gives_the_same_picture() -> None:
    assert picture.svg(tangle(30)) == picture.svg(tangle(30))


def test_an_empty_plan_gives_an_empty_picture() -> None:
    assert Drawing(Plan(())).stages() == {}


def test_a_stage_shows_its_labels() -> None:
    drawing = Drawing(Plan((stage(0, "Read", "Count", "Write"),)))
    assert drawing.texts("label") == ["Read", "Count", "Write"]


@pytest.mark.parametrize(
    "label",
    ["Map(<lambda at x.py:3>)", "a & b", 'quoted "label"', "]]>", "漢字 ✓ é"],
)
def test_labels_are_shown_as_they_are(label: str) -> None:
    assert Drawing(Plan((stage(0, label),))).texts("label") == [label]


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ud800", "\uffff"])
def test_what_xml_forbids_is_replaced(character: str) -> None:
    assert Drawing(Plan((stage(0, f"a{character}b"),))).texts("label") == ["a\ufffdb"]


def test_a_long_label_wraps_and_keeps_every_character() -> None:
    label = "Read/From a very long place(<lambda at pipeline.py:123>)" + "x" * 90
    lines = Drawing(Plan((stage(0, label),))).texts("label")
    assert max(map(len, lines)) <= 34
    assert "".join(line.lstrip("\N{NO-BREAK SPACE}") for line in lines) == label


def test_wide_characters_wrap_earlier() -> None:
    lines = Drawing(Plan((stage(0, "漢" * 34),))).texts("label")
    assert len(lines) > 1


def test_too_many_labels_end_with_their_number_and_are_in_the_tooltip() -> None:
    labels = [f"Step {n}" for n in range(40)]
    drawing = Drawing(Plan((stage(0, *labels),)))
    assert drawing.texts("label")[-1] == "… 27 more lines"
    title = drawing.stages()["s0"].find(f"{SVG}title")
    assert title is not None
    assert (title.text or "").endswith("Step 38, Step 39")


def test_a_stage_that_is_read_more_than_once_is_marked_as_persisted() -> None:
    stages = stage(0), stage(1, inputs=(0,)), stage(2, inputs=(0,), ports=0)
    assert "persisted, read 2 times" in Drawing(Plan(stages)).texts("soft")
    assert "persisted" not in "".join(Drawing(Plan(stages, streaming=True)).texts("soft"))


def test_a_stage_whose_rows_the_workers_keep_is_marked() -> None:
    stages = stage(0, ports=2), stage(1, inputs=(0,), side=(100,))
    assert "kept in files" in Drawing(Plan(stages, kept=frozenset([0]))).texts("soft")


@pytest.mark.parametrize(
    ("exchange", "strategy", "words"),
    [
        (Exchange.FORWARD, None, "same task"),
        (Exchange.REBALANCE, None, "rebalance"),
        (Exchange.BY_KEY, GroupStrategy.WINDOWS, "shuffle by key"),
        (Exchange.BY_KEY, GroupStrategy.SESSIONS, "shuffle by key, sessions"),
    ],
)
def test_an_edge_is_labelled_with_its_exchange(
    exchange: Exchange, strategy: GroupStrategy | None, words: str
) -> None:
    reader = stage(1, exchange=exchange, strategy=strategy, inputs=(0,))
    drawing = Drawing(Plan((stage(0), reader)))
    assert drawing.texts("pill-text") == ["impulse", words]
    assert [kind for kind, _ in drawing.edges()] == [exchange.value]


def test_a_side_input_is_dashed_and_has_its_own_way_in() -> None:
    drawing = Drawing(Plan((stage(0), stage(1), stage(2, inputs=(0,), side=(1,), ports=0))))
    assert drawing.texts("pill-text") == ["impulse", "impulse", "same task", "side input"]
    ends = {kind: way[-1] for kind, way in drawing.edges()}
    assert ends["forward"] != ends["side"]
    assert re.search(r"\.edge\.side[^}]*stroke-dasharray", picture.svg(chain(1)))


def test_the_tooltip_of_a_grouping_tells_what_makes_the_groups_and_why() -> None:
    title = (
        Drawing(Plan((stage(0, format=KeyedRows(), strategy=GroupStrategy.TRIGGERS),)))
        .stages()["s0"]
        .find(f"{SVG}title")
    )
    assert title is not None
    assert "by Beam's trigger driver, key by key, because it is so" in (title.text or "")


@pytest.mark.parametrize("what", [*FORMATS, *GroupStrategy])
def test_labels_of_edges_stay_apart_and_within_their_box(what: RowFormat | GroupStrategy) -> None:
    how: Any = {"format": what} if isinstance(what, RowFormat) else {"strategy": what}
    reader = stage(2, exchange=Exchange.BY_KEY, inputs=(0,), side=(1,), **how)
    drawing = Drawing(Plan((stage(0), stage(1), reader)))
    pills = [e for e in drawing.stages()["s2"] if "pill" in (e.get("class") or "").split()]
    (left, first), (second, width) = (
        (float(pill.get("x", "")), float(pill.get("x", "")) + float(pill.get("width", "")))
        for pill in pills
    )
    assert 0 < left < first < second < width < drawing.boxes()["s2"][2]


class TestPage:
    def page(self, plan: Plan) -> str:
        return picture.page(plan, "A <plan>", {"Stages": "s0 <first> & last\n  s1"})

    def test_it_holds_the_picture_and_the_texts(self) -> None:
        page = self.page(chain(3))
        assert picture.svg(chain(3)) in page
        assert "<h2>Stages</h2>" in page
        assert "s0 &lt;first&gt; &amp; last\n  s1" in page
        assert "<title>A &lt;plan&gt;</title>" in page

    def test_it_fetches_nothing(self) -> None:
        page = self.page(fan_out(3)).replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|\bsrc=|<link|<script|@import|url\(", page)

    def test_a_browser_lays_it_out_without_scrolling_sideways(self, tmp_path: Path) -> None:
        (tmp_path / "page.html").write_text(self.page(fan_out(6)), encoding="utf-8")
        # Frames, because a headless window is not narrower than 500 pixels.
        (tmp_path / "frames.html").write_text(FRAMES, encoding="utf-8")
        dom = browse(tmp_path / "frames.html", tmp_path / "profile")
        reports = re.findall(r"width=(\d+) content=(\d+) boxes=(\d+) labels fit=(\w+)", dom)
        assert reports == [("390", "390", "9", "true"), ("1280", "1280", "9", "true")]


FRAMES = """\
<iframe src="page.html" style="border: 0; width: 390px; height: 4000px"></iframe>
<iframe src="page.html" style="border: 0; width: 1280px; height: 4000px"></iframe>
<script>
  onload = () => { for (const { document: page } of Array.from(frames)) {
    const labels = [...page.querySelectorAll("g > .label")];
    const fits = label => label.getBBox().x + label.getBBox().width
      < label.parentNode.querySelector(".box").getBBox().width;
    document.body.append(`width=${page.documentElement.clientWidth} `
      + `content=${page.documentElement.scrollWidth} `
      + `boxes=${page.querySelectorAll(".box").length} labels fit=${labels.every(fits)};`);
  } };
</script>
"""


def browse(page: Path, profile: Path) -> str:
    """The document as a headless Chromium leaves it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    done = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--allow-file-access-from-files",
            f"--user-data-dir={profile}",
            "--window-size=1400,1000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout
