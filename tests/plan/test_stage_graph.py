"""The stages of a plan as HTML and as a flowchart: what is in them, and that texts stay texts."""

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from golden_files import Golden, sections
from plans import chain, fan_out, stage, tangle

from sparkbeam.explain import stage_graph
from sparkbeam.explain.stage_graph import sketch
from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.plan.model import Exchange, Plan
from sparkbeam.plan.row_formats import KeyedRows

PLANS = {
    "one stage": chain(1),
    "chain of 60": chain(60),
    "fan-out to 40": fan_out(40),
    "tangle of 60": tangle(60),
}


class Shown:
    """The HTML of a plan, taken apart."""

    def __init__(self, plan: Plan) -> None:
        self.root = ET.fromstring(stage_graph.html(sketch(plan)))
        self.rows = [
            [str(box.get("data-stage")) for box in row]
            for row in self.root
            if row.get("class") == "row"
        ]

    def texts(self, path: str) -> list[str]:
        return ["".join(element.itertext()) for element in self.root.iterfind(f".//{path}")]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_each_stage_has_a_box_below_those_that_it_reads(plan: Plan) -> None:
    rows = Shown(plan).rows
    assert sorted(id for row in rows for id in row) == sorted(stage.id for stage in plan.stages)
    at = {id: number for number, row in enumerate(rows) for id in row}
    for reader in plan.stages:
        for tag in (*reader.inputs, *(t for s in reader.side_inputs for t in s.sources)):
            assert at[plan.producer(tag).id] < at[reader.id]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_flowchart_has_a_line_for_each_stage_and_edge(plan: Plan) -> None:
    head, *lines = stage_graph.flowchart(sketch(plan)).splitlines()
    assert head == "flowchart TD"
    boxes = [re.fullmatch(r'  (stage\d+)\["([^"]*)"\]', line) for line in lines]
    edges = [re.fullmatch(r'  (stage\d+) -\.?->\|"[^"]+"\| (stage\d+)', line) for line in lines]
    assert all(bool(box) != bool(edge) for box, edge in zip(boxes, edges, strict=True))
    names = {box[1] for box in boxes if box}
    assert len(names) == len(plan.stages)
    assert {name for edge in edges if edge for name in edge.groups()} <= names
    assert len([edge for edge in edges if edge]) == len(sketch(plan).arrows)


def test_an_empty_plan_has_no_boxes() -> None:
    assert Shown(Plan(())).rows == []


HOSTILE = ["Map(<lambda at x.py:3>)", "a & b", 'quoted "label"', "]]>", "漢字\u3000✓ é"]


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_are_shown_as_they_are(label: str) -> None:
    plan = Plan((stage(0, "Read", label),))
    assert Shown(plan).texts("li") == ["Read", label]
    chart = stage_graph.flowchart(sketch(plan))
    written = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), chart)
    assert f'["s0<br>Read<br>{label}"]' in written
    assert not re.search(r'[<>&"]', chart.partition('["s0<br>Read<br>')[2].partition('"]')[0])


def test_a_flowchart_stays_small() -> None:
    stages = tuple(stage(n, *(f"Step {k} " + "x" * 500 for k in range(40))) for n in range(30))
    chart = stage_graph.flowchart(sketch(Plan(stages)))
    assert "<br>26 more" in chart
    assert len(chart) < 50_000
    assert len(Shown(Plan(stages)).texts("li")) == 30 * 40


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ud800", "\uffff"])
def test_what_pages_cannot_have_is_replaced(character: str) -> None:
    assert Shown(Plan((stage(0, f"a{character}b"),))).texts("li") == ["a\ufffdb"]


READ_TWICE = (stage(0), stage(1, inputs=(0,)), stage(2, inputs=(0,), ports=0))
BY_KEY, WINDOWS, SESSIONS = Exchange.BY_KEY, GroupStrategy.WINDOWS, GroupStrategy.SESSIONS
GRAPHS = {
    "persisted": Plan(READ_TWICE),
    "a stream": Plan(READ_TWICE, streaming=True),
    "rows that the workers keep": Plan(
        (stage(0, ports=2), stage(1, inputs=(0,), side=(100,))), kept=frozenset([0])
    ),
    "ways": Plan(
        (
            stage(0),
            stage(1, exchange=Exchange.REBALANCE, inputs=(0,)),
            stage(2, exchange=BY_KEY, strategy=WINDOWS, inputs=(1,)),
            stage(3, exchange=BY_KEY, strategy=SESSIONS, inputs=(2,)),
            stage(4, inputs=(3,), side=(2,), ports=0),
        )
    ),
    "a trigger": Plan((stage(0, format=KeyedRows(), strategy=GroupStrategy.TRIGGERS),)),
}


def test_graphs(golden: Golden) -> None:
    texts = {}
    for name, plan in GRAPHS.items():
        root = ET.fromstring(stage_graph.html(sketch(plan)))
        root.remove(root[0])  # The style, the same for all.
        ET.indent(root)
        chart = stage_graph.flowchart(sketch(plan))
        texts[name] = [*ET.tostring(root, "unicode").splitlines(), *chart.splitlines()]
    golden("stage graphs.txt", sections(texts))


class TestPage:
    def page(self, plan: Plan) -> str:
        return stage_graph.page(sketch(plan), "A <plan>", {"Stages": "s0 <first> & last\n  s1"})

    def test_it_holds_the_stages_and_the_texts(self) -> None:
        page = self.page(chain(3))
        assert stage_graph.html(sketch(chain(3))) in page
        assert "<h2>Stages</h2>" in page
        assert "s0 &lt;first&gt; &amp; last\n  s1" in page
        assert "<title>A &lt;plan&gt;</title>" in page

    def test_it_fetches_nothing(self) -> None:
        page = self.page(fan_out(3))
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
    const labels = [...page.querySelectorAll("li")];
    const right = element => element.getBoundingClientRect().right;
    const fits = label => right(label) < right(label.closest(".box"));
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
