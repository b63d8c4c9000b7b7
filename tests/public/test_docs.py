"""The documents say what is so: their examples run, and what is generated is up to date."""

import importlib.util
import json
import pathlib
import re

import ctrlgrad
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / (name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def differences():
    return script("make_differences")


def python_blocks():
    """The Python of the README, what writes the example's net first."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    return sorted(blocks, key=lambda block: 'save(net, "train.pb")' not in block)


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks()
    assert len(blocks) >= 6
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    whole = ctrlgrad.load("train_with_gradients.pb")
    assert len(whole.op) == 11
    printed = capsys.readouterr().out
    assert "FCGradient ['x', 'w1', 'h_grad'] -> ['w1_grad', 'b1_grad', 'x_grad']" in printed


def test_the_error_reads_as_shown(tmp_path, capsys):
    [block] = [block for block in python_blocks() if "VersionError" in block]
    exec(compile(block, "README.md", "exec"), {})
    shown = re.search(r"VersionError.*?```\n\n(.*?)\n\n", README, re.DOTALL).group(1)
    assert capsys.readouterr().out == "".join(line[4:] + "\n" for line in shown.split("\n"))


def test_rows_and_cases_that_are_shown_are_real():
    files = sorted((ROOT / "rust/src/makers").glob("*.rs"))
    makers = "".join(path.read_text(encoding="utf-8") for path in files)
    recorded = (ROOT / "tests/golden/ops.jsonl").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"```rust\n(.*?)\n```", contributing, re.DOTALL)
    rows += re.findall(r"^    (one\(.*)$", README, re.MULTILINE)
    assert len(rows) == 3
    for row in rows:
        assert " ".join(row.split()) in " ".join(makers.split())
    [case] = re.findall(r"```json\n(.*?)\n```", contributing, re.DOTALL)
    assert case in recorded


def test_numbers_of_cases():
    files = sorted((ROOT / "tests/golden").glob("*.jsonl"))
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    scoped = sum("scope" in json.loads(line) for line in lines)
    assert f"{len(lines):,} questions" in README
    assert f"{len(lines) - scoped:,} of them" in README.replace("\n  ", " ")


def test_number_of_caffe2s_own_tests():
    listed = json.loads((ROOT / "tests/suites/suites.json").read_text(encoding="utf-8"))
    assert "%d of the tests" % sum(map(len, listed["files"].values())) in README


def test_performance_is_what_its_figures_give():
    """If this fails: python scripts/make_performance.py"""
    made = script("make_performance")
    found = json.loads(made.FIGURES.read_text(encoding="utf-8"))
    for path, content in made.pages(found).items():
        assert path.read_text(encoding="utf-8") == content


def test_differences_are_up_to_date(differences):
    """If this fails: python scripts/make_differences.py"""
    assert differences.document() == differences.TARGET.read_text(encoding="utf-8")


def test_the_notation_of_nets_can_be_read_back(differences):
    source = json.loads(differences.SOURCE.read_text(encoding="utf-8"))
    kinds = [kind for part in source["sections"] for kind in part["kinds"] if "net" in kind]
    assert len(kinds) > 10
    for kind in kinds:
        net = differences.net_from(kind["net"], ctrlgrad.caffe2_pb2)
        assert differences.lines_of(net.op) == kind["net"], kind["title"]


def test_every_kind_must_have_its_place(differences):
    source = json.loads(differences.SOURCE.read_text(encoding="utf-8"))
    removed = source["sections"][0]["kinds"].pop(0)["cases"][0]
    with pytest.raises(SystemExit, match=re.escape(removed)):
        differences.document(source)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}
    base = "https://github.com/ctrlgrad/ctrlgrad/blob/main/"
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if link.startswith("#"):
            assert link[1:] in anchors, link
        elif link.startswith(base):
            assert (ROOT / link[len(base) :]).exists(), link
        elif not link.startswith("https://"):
            assert (page.parent / link.split("#")[0]).exists(), link


def test_the_rooms_are_all_there():
    """docs/architecture.md names each file of the core and of the package, and no others."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for folder, ending, beside in (
        ("rust/src", ".rs", {"lib", "testing"}),
        ("python/ctrlgrad", ".py", {"__init__"}),
    ):
        [table] = re.findall(r"\| room, in `%s` \|.*\n((?:\|.*\n)+)" % folder, text)
        rows = [row.split("|")[1] for row in table.splitlines()[1:]]
        named = {name for row in rows for name in re.findall(r"`(.+?)`", row)}
        rooms = {path.stem for path in (ROOT / folder).glob("*" + ending)} - beside
        rooms |= {
            path.name + "/"
            for path in (ROOT / folder).iterdir()
            if path.is_dir() and path.name != "__pycache__"
        }
        assert named == rooms
