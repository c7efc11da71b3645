"""Tables as strangers have them, from the command line: a right model at once, or after one refusal that says how."""

from __future__ import annotations

import csv
import dataclasses
import re
import sys

import numpy as np
import pytest

from fishergcn import Graph, load_model
from fishergcn.cli import main

COUNT = 24
TEAMS = np.array(["red", "blue"])[np.arange(COUNT) % 2]
FEW = ("--method", "mlp", "--epochs", "60", "--lr", "0.05", "--scaling", "columns", "--device", "cpu", "--quiet")


@pytest.fixture
def type_in(capsys, tmp_path, monkeypatch):
    """Give a command in a folder of its own; return its status, and what it says."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["fishergcn", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return done.value.code, out, err

    run.folder = tmp_path
    return run


def write(path, rows, mark=",", encoding="utf-8"):
    text = "".join(mark.join(map(str, row)) + "\r\n" for row in rows)
    path.write_bytes(text.encode(encoding))


def ring(name=str, more=lambda at: ()):
    """Links between members of one team."""
    return [[name(at), name((at + 2 * step) % COUNT), *more(at)] for at in range(COUNT) for step in (1, 2)]


def heights(at):
    """A number that tells the teams apart."""
    return round(1.5 + (at % 2) + 0.01 * at, 2)


def classes(folder):
    with open(folder / "model" / "predictions.csv", encoding="utf-8", newline="") as stream:
        return [row["class"] for row in csv.DictReader(stream)]


def check_right(folder, expected=TEAMS):
    assert classes(folder) == list(expected)


class TestStrangers:
    def test_semicolons_decimal_commas_and_a_mark(self, type_in):
        """As a spreadsheet in much of Europe writes CSV."""
        rows = [[f"n{at}", f"{heights(at)}".replace(".", ","), TEAMS[at] if at < 16 else ""] for at in range(COUNT)]
        write(type_in.folder / "nodes.csv", [["id", "height", "team"], *rows], ";", "utf-8-sig")
        write(type_in.folder / "links.csv", [["source", "target"], *ring(lambda at: f"n{at}")], ";", "utf-8-sig")
        words = ("train", "--edges", "links.csv", "--features", "nodes.csv", "--label", "team", *FEW, "--out", "model")
        status, _, told = type_in(*words)
        assert status == 0, told
        assert "column 'height' is read with decimal commas: 0,5 is 0.5" in told
        check_right(type_in.folder)
        assert load_model("model").graph.features[3, 0] == np.float32(2.53)

    def test_ids_with_leading_zeros(self, type_in):
        names = [f"{at:05d}" for at in range(COUNT)]
        write(
            type_in.folder / "nodes.csv", [["plate", "height"], *([name, heights(at)] for at, name in enumerate(names))]
        )
        write(type_in.folder / "links.csv", [["from", "to"], *ring(lambda at: names[at])])
        write(type_in.folder / "labels.csv", [["plate", "team"], *([names[at], TEAMS[at]] for at in range(16))])
        words = ("--edges", "links.csv", "--features", "nodes.csv", "--labels", "labels.csv", *FEW, "--out", "model")
        assert type_in("train", *words)[0] == 0
        check_right(type_in.folder)
        assert load_model("model").node_names[1] == "00001"

    def test_labels_in_mixed_case_with_gaps(self, type_in):
        """A note says what is unknown, and which classes are perhaps one."""
        words = ["n/a", "NaN", "?", "NULL", ""]
        given = [TEAMS[at] if at < 14 else "Red" if at == 14 else words[at % 5] for at in range(COUNT)]
        write(type_in.folder / "nodes.csv", [["id", "height", "team"], *([at, heights(at), f'"{given[at]} "']
              for at in range(COUNT))])  # fmt: skip
        write(type_in.folder / "links.csv", [["source", "target"], *ring()])
        words = ("train", "--edges", "links.csv", "--features", "nodes.csv", "--label", "team", *FEW, "--out", "model")
        status, _, told = type_in(*words)
        assert status == 0, told
        assert (
            "classes that differ only in case, blanks or the way a number is written are kept apart: 'Red' and" in told
        )
        assert re.search(r"8 label\(s\) are read as unknown: .*'n/a' \(.\).*; --missing says which texts", told)
        assert load_model("model").class_names == ("Red", "blue", "red")
        assert (np.array(load_model("model").graph.labels) >= 0).sum() == 15

    def test_dates_and_free_text(self, type_in):
        """One refusal names all columns and the option that mends each; typed as they stand there, they do."""
        rows = [[at, f"2021-{1 + at % 12:02d}-17", f"member {at} likes tea", ["Rome", "Oslo"][at % 3 % 2], heights(at),
                 "" if at == 7 else at % 5, TEAMS[at] if at < 16 else ""] for at in range(COUNT)]  # fmt: skip
        write(type_in.folder / "nodes.csv", [["id", "joined", "about me", "city", "height", "visits", "team"], *rows])
        write(type_in.folder / "links.csv", [["source", "target"], *ring()])
        words = ["train", "--edges", "links.csv", "--features", "nodes.csv", "--label", "team", *FEW, "--out", "model"]
        status, _, told = type_in(*words)
        assert status == 2
        assert told.count("\n") == 1
        assert "=" not in re.sub(r"--column ('[^']*'|\S+)", "", told)  # no argument of Python
        options = [
            "--column",
            "joined=drop",
            "--column",
            "about me=drop",
            "--column",
            "city=one-hot",
            "--empty",
            "fill",
        ]
        for option in ("--column joined=drop", "--column 'about me=drop'", "--column city=one-hot", "--empty fill"):
            assert option in told
        status, _, told = type_in(*words, *options)
        assert status == 0, told
        check_right(type_in.folder)
        assert load_model("model").graph.feature_names == ("city=Oslo", "city=Rome", "height", "visits")

    def test_rows_that_repeat_and_links_of_nobody(self, type_in):
        rows = [[at, heights(at)] for at in range(COUNT)]
        write(type_in.folder / "nodes.csv", [["id", "height"], *rows, rows[3], rows[5]])
        extra = [["0", "99", "1999", "kin"], ["1", "1", "2001", "kin"]]
        linked = ring(more=lambda at: (1990 + at, "friend"))
        write(type_in.folder / "links.csv", [["source", "target", "year", "kind"], *linked, *extra])
        write(type_in.folder / "labels.csv", [["id", "team"], *([at, TEAMS[at]] for at in range(16)), ["77", "red"]])
        words = ["train", "--edges", "links.csv", "--features", "nodes.csv", "--labels", "labels.csv", *FEW]
        status, _, told = type_in(*words, "--out", "model")
        assert status == 2
        assert "--repeated first keeps the first row of each" in told
        assert "--unknown drop leaves such links out" in told
        assert "labels.csv line 18: node '77' is not in the graph" in told
        status, _, told = type_in(*words, "--repeated", "first", "--unknown", "drop", "--out", "model")
        assert status == 0, told
        assert "left out: 'year', 'kind'" in told
        graph = load_model("model").graph
        assert (graph.num_nodes, graph.num_self_links, set(graph.adjacency.data)) == (COUNT, 1, {1.0})
        check_right(type_in.folder)

    def test_utf_16_from_a_spreadsheet(self, type_in):
        rows = [[f"Zoë {at}", heights(at), TEAMS[at] if at < 16 else "#N/A"] for at in range(COUNT)]
        write(type_in.folder / "nodes.txt", [["name", "height", "team"], *rows], "\t", "utf-16")
        write(type_in.folder / "links.txt", [["source", "target"], *ring(lambda at: f"Zoë {at}")], "\t", "utf-16")
        words = ("train", "--edges", "links.txt", "--features", "nodes.txt", "--label", "team", *FEW, "--out", "model")
        status, _, told = type_in(*words)
        assert status == 0, told
        check_right(type_in.folder)


@pytest.fixture
def messy(type_in):
    """A model of a table that needs options of every kind, and files of the same members with four more."""
    random = np.random.default_rng(0)

    def tables(stem, count):
        rows = [[at, f"m{at}", f"2021-{1 + at % 12:02d}-17", ["Rome", "Oslo", "Bern"][at % 3],
                 f'"{heights(at)}"'.replace(".", ","), random.choice(["", 3, 4, -999]), f"{at % 4}",
                 TEAMS[at % COUNT] if at < 16 else "none", "" if at > 15 else "train" if at % 3 else "val"]
                for at in range(count)]  # fmt: skip
        head = ["row", "name", "joined", "city", "height", "visits", "zone", "team", "fold"]
        write(type_in.folder / f"{stem}-nodes.csv", [head, *rows])
        linked = ring(lambda at: f"m{at}", lambda at: (2 + at % 3, 1990 + at))
        linked += [[f"m{at}", f"m{at - 2}", 1, 2000] for at in range(COUNT, count)] + [
            ["m1", "m1", 1, 2001],
            ["m0", "x", 1, 1],
        ]
        write(type_in.folder / f"{stem}-links.csv", [["who", "whom", "times", "year"], *linked])

    tables("old", COUNT)
    tables("new", COUNT + 4)
    options = [
        "--source", "who", "--target", "whom", "--weight", "times", "--id", "name", "--drop", "row",
        "--column", "joined=drop", "--column", "zone=one-hot", "--text", "one-hot", "--empty", "fill",
        "--missing", "none", "--missing", "-999", "--unknown", "drop", "--self-links", "drop",
    ]  # fmt: skip
    files = ["--edges", "old-links.csv", "--features", "old-nodes.csv", "--label", "team", "--parts", "fold"]
    few = ["--method", "gcn", "--epochs", "5", "--hidden", "4", "--device", "cpu", "--quiet"]
    status, _, told = type_in("train", *files, *options, *few, "--out", "model")
    assert status == 0, told
    type_in.options = options
    return type_in


NEW = ("--edges", "new-links.csv", "--features", "new-nodes.csv")


class TestMemory:
    def test_predict_needs_the_files_and_nothing_else(self, messy):
        status, bare, told = messy("predict", "model", *NEW)
        assert status == 0, told
        assert "28 nodes: 24 known from training, 4 new." in told
        assert messy("predict", "model", *NEW, *messy.options)[1] == bare
        said = dict(zip(messy.options[::2], messy.options[1::2], strict=True))
        assert said["--weight"] == "times"
        assert messy("predict", "model", *NEW, "--weight", "none")[1] != bare  # what is said comes first

    def test_a_new_text_is_told(self, messy):
        path = messy.folder / "new-nodes.csv"
        path.write_text(path.read_text().replace("Bern", "Pisa"))
        status, _, told = messy("predict", "model", *NEW, "--out", "p.csv")
        assert status == 0
        assert "column 'city' holds 1 text(s) that training did not have, such as 'Pisa'; they are 0 in all" in told

    def test_a_column_that_is_gone_is_one_sentence(self, messy):
        path = messy.folder / "new-nodes.csv"
        path.write_text(path.read_text().replace("height", "tall"))
        status, _, told = messy("predict", "model", *NEW, "--out", "p.csv")
        assert (status, told.count("\n")) == (2, 1)
        assert "new-nodes.csv has no column 'height', which training had." in told
        assert not (messy.folder / "p.csv").exists()

    def test_a_graph_file_remembers_too(self, messy):
        files = ["--edges", "old-links.csv", "--features", "old-nodes.csv", "--label", "team", "--parts", "fold"]
        assert messy("data", "import", *files, *messy.options, "--name", "old-links", "--out", "old.npz")[0] == 0
        few = ["--method", "gcn", "--epochs", "5", "--hidden", "4", "--device", "cpu", "--quiet"]
        assert messy("train", "old.npz", *few, "--out", "again")[0] == 0
        assert messy("predict", "again", *NEW)[1] == messy("predict", "model", *NEW)[1]

    def test_a_model_that_remembers_nothing(self, messy):
        """As one of an older version, whose tables are said to be what they are."""
        model = load_model("model")
        dataclasses.replace(model, graph=model.graph.replace(reading=None)).save("old-model")
        assert load_model("old-model").graph.reading is None
        assert messy("predict", "old-model", *NEW)[0] == 2
        dropped = ["--drop", "team", "--drop", "fold"]
        assert messy("predict", "old-model", *NEW, *messy.options, *dropped)[1] == messy("predict", "model", *NEW)[1]


class TestCommands:
    def test_options_of_train_are_ignored_with_a_note(self, messy):
        bare = messy("predict", "model")[1]
        more = ["--label", "team", "--labels", "x.csv", "--seeds", "3", "--method", "gcn", "--epochs", "7", "--quiet"]
        status, out, told = messy("predict", "model", *more)
        assert (status, out) == (0, bare)
        assert "--labels, --label, --method, --seeds, --quiet, --epochs have no effect here." in told

    def test_a_graph_is_named_alike_everywhere(self, messy):
        load_model("model").graph.replace(name="g").save("g.npz")
        shown = {messy("spectrum", *words, "--rank", "1")[1] for words in (["g.npz"], ["--graph", "g.npz"],
                 ["--dataset=g.npz"])}  # fmt: skip
        assert len(shown) == 1
        assert "eigenvalue" in shown.pop()
        named = (["g.npz"], ["--graph", "g.npz"], ["--dataset", "g.npz"])
        assert len({messy("predict", "model", *words)[1] for words in named}) == 1
        few = ["--preset", "robustness-quick", "--attack", "features", "--method", "gcn", "--splits", "per-class:3+2:1"]
        few += ["--epochs", "1", "--dry-run", "--json", "--out", "x", "--device", "cpu"]
        plans = [messy("robustness", *words, *few) for words in named]
        assert [status for status, _, _ in plans] == [0, 0, 0], plans
        for words in (["cora"], ["--graph", "cora"], ["--dataset", "cora"]):
            assert "2,708" in messy("train", *words, "--dry-run")[1]
        assert messy("train", "--graph", "cora", "--edges", "x.csv")[2] == (
            "fishergcn: error: either a GRAPH (--dataset, --graph) or --edges must be given, got both.\n"
        )

    def test_a_dry_run_shows_how_files_are_read(self, messy):
        files = ["--edges", "old-links.csv", "--features", "old-nodes.csv", "--label", "team"]
        status, out, told = messy("train", *files, *messy.options, "--dry-run")
        assert status == 0
        assert re.search(r"labeled nodes +16\b", out)
        assert re.search(r"weights +1 to 4, median 3|weights +2 to 4, median 3", out)
        assert "column 'city' becomes 3 features" in told
        assert not (messy.folder / "m").exists()

    def test_weights_are_described(self, type_in):
        Graph.from_edges([(0, 1), (1, 2), (2, 3)], weights=[0.5, 2, 8], name="w").save("w.npz")
        assert re.search(r"weights +0\.5 to 8, median 2\b", type_in("data", "info", "w.npz")[1])
        Graph.from_edges([(0, 1), (1, 2)], name="o").save("o.npz")
        assert re.search(r"weights +all 1\b", type_in("data", "info", "o.npz")[1])

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--dataset", "cora", "--time-limit", "-1"), "--time-limit must be greater than 0.0, got -1."),
            (("cora", "--method", "gcn", "--epochs", "0"), "--epochs must be at least 1, got 0."),
            (("cora", "--method", "gcn", "--lr", "-1"), "--lr must be greater than 0.0, got -1."),
            (("--edges", "e.csv", "--label", "x", "--column", "x"), "--column must be NAME=KIND, such as price=number"),
            (
                ("--edges", "e.csv", "--label", "x", "--column", "x=text"),
                "--column x must be one of 'number', 'decimal",
            ),
            (("cora", "--graph", "cora"), "graphs must have distinct names, got cora, cora."),
        ],
    )
    def test_errors_speak_of_options(self, type_in, words, message):
        (type_in.folder / "e.csv").write_text("a,b\n")
        status, _, told = type_in("train", *words)
        assert status == 2
        assert told.startswith(f"fishergcn: error: {message}")
        assert told.count("fishergcn: error") == 1


class TestMoreStrangers:
    """Tables of other programs, which lead to a right model at once or after one refusal."""

    def test_a_spreadsheet_as_unicode_text(self, type_in):
        """UTF-16 with tabs; empty columns at the right, which mean nothing, and a percentage."""
        rows = [[at + 1, heights(at), f"{at}.5%", TEAMS[at] if at < 16 else "#N/A", "", ""] for at in range(COUNT)]
        write(type_in.folder / "nodes.txt", [["Node No.", "Size", "Share", "Team", "", ""], *rows], "\t", "utf-16")
        linked = [[at + 1, other + 1, "", ""] for at, other in ring(int)]
        write(type_in.folder / "links.txt", [["From", "To", "", ""], *linked], "\t", "utf-16")
        words = ["train", "--edges", "links.txt", "--features", "nodes.txt", "--label", "Team", *FEW, "--out", "model"]
        status, _, told = type_in(*words)
        assert status == 2
        assert "'Share' holds numbers with a sign or unit such as '0.5%' in line 2 (--column Share=drop)." in told
        assert "''" not in told  # a column without a name needs no word
        status, _, told = type_in(*words, "--column", "Share=drop")
        assert status == 0, told
        assert "column '5' is left out: all of its cells are empty" in told
        assert "left out: column 3, column 4" in told
        check_right(type_in.folder)
        assert load_model("model").graph.feature_names == ("Size",)

    def test_links_with_years_and_ids_beside_an_index(self, type_in):
        """As pandas writes them; columns are found by what their names have in common, ids by the links."""
        names = [f"{at:06d}" for at in range(COUNT)]
        write(type_in.folder / "nodes.csv", [["", "zip", "height"], *([7 * at, name, heights(at)]
              for at, name in enumerate(names))])  # fmt: skip
        linked = [[1990 + at, "kin", names[at], names[(at + 2 * step) % COUNT]]
                  for at in range(COUNT) for step in (1, 2)]  # fmt: skip
        write(type_in.folder / "links.csv", [["year", "kind", "from_zip", "to_zip"], *linked])
        write(type_in.folder / "labels.csv", [["zip", "team"], *([names[at], TEAMS[at]] for at in range(16))])
        words = ("--edges", "links.csv", "--features", "nodes.csv", "--labels", "labels.csv", *FEW, "--out", "model")
        status, _, told = type_in("train", *words)
        assert status == 0, told
        assert "source 'from_zip', target 'to_zip'; left out: 'year', 'kind'." in told
        assert "node ids are in column 'zip'; left out: the index." in told
        check_right(type_in.folder)
        assert load_model("model").graph.feature_names == ("height",)

    def test_parquet_with_gaps_and_categories(self, type_in):
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        numbers = np.arange(COUNT)
        nodes = pandas.DataFrame({
            "uid": pandas.array(numbers + 1000, dtype="Int64"),
            "height": pandas.array([None if at == 5 else heights(at) for at in range(COUNT)], dtype="Float64"),
            "paid": pandas.array([None if at == 7 else bool(at % 3) for at in range(COUNT)], dtype="boolean"),
            "town": pandas.Categorical(np.array(["Rome", "Oslo"])[numbers % 3 % 2]),
            "joined": pandas.to_datetime("2020-01-01") + pandas.to_timedelta(numbers, "D"),
            "team": pandas.Categorical([TEAMS[at] if at < 16 else None for at in range(COUNT)]),
        })  # fmt: skip
        nodes.to_parquet(type_in.folder / "nodes.parquet")
        ends = np.array(ring(int)) + 1000
        pandas.DataFrame({"a": ends[:, 0], "b": ends[:, 1], "strength": 2.0, "since": 1990}).to_parquet("links.parquet")
        words = ["train", "--edges", "links.parquet", "--features", "nodes.parquet", "--label", "team", *FEW]
        words[words.index("mlp")] = "gcn"  # few of these features tell the teams apart
        status, _, told = type_in(*words, "--out", "model")
        assert status == 2
        assert told.count("\n") == 1
        for option in ("--column town=one-hot", "--column joined=drop", "--empty fill"):
            assert option in told
        options = ("--column", "town=one-hot", "--column", "joined=drop", "--empty", "fill", "--out", "model")
        status, _, told = type_in(*words, *options)
        assert status == 0, told
        assert "source 'a', target 'b', weight 'strength'; left out: 'since'" in told
        check_right(type_in.folder)
        assert set(load_model("model").graph.adjacency.data) == {2.0}

    def test_weights_beside_ends_that_were_chosen(self, type_in):
        linked = ring(more=lambda at: (1990 + at, 3))
        write(type_in.folder / "links.csv", [["who", "whom", "year", "weight"], *linked])
        ends = ("--edges", "links.csv", "--source", "who", "--target", "whom")
        status, _, told = type_in("data", "import", *ends, "--out", "all.npz")
        assert (status, "weight 'weight'; left out: 'year'" in told) == (0, True)
        assert "weights           all 3" in type_in("data", "info", "all.npz")[1]
        assert type_in("data", "import", *ends, "--weight", "none", "--out", "plain.npz")[0] == 0
        assert "weights           all 1" in type_in("data", "info", "plain.npz")[1]

    def test_dates_beside_ends_are_no_ends(self, type_in):
        write(type_in.folder / "links.csv", [["member", "friend", "start_date", "end_date"], ["A1", "B2", 2020, 2021]])
        status, _, told = type_in("data", "import", "--edges", "links.csv", "--header", "all", "--out", "g.npz")
        assert status != 0
        assert "--source and --target (there are 'member', 'friend', 'start_date', 'end_date')" in told

    @pytest.mark.parametrize("mark", ["k.A.", "unknown", "--"])
    def test_a_class_that_may_mean_none(self, type_in, mark):
        rows = [[at, heights(at), TEAMS[at] if at < 16 else mark] for at in range(COUNT)]
        write(type_in.folder / "nodes.csv", [["id", "height", "team"], *rows])
        write(type_in.folder / "links.csv", [["source", "target"], *ring()])
        words = ("data", "import", "--edges", "links.csv", "--features", "nodes.csv", "--label", "team")
        told = type_in(*words, "--out", "g.npz")[2]
        assert f"'{mark}' is taken for a class, of 8 node(s); --missing {mark} says that such nodes have none." in told
        assert "is taken for a class" not in type_in(*words, "--missing", mark, "--out", "h.npz")[2]
        assert Graph.load("h.npz").num_classes == 2

    def test_what_is_known_of_other_tasks(self, type_in):
        rows = [[at, heights(at), "x|y" if at % 2 else "y", heights(at)] for at in range(COUNT - 4)]
        rows += [[at, heights(at), "", ""] for at in range(COUNT - 4, COUNT)]
        write(type_in.folder / "nodes.csv", [["id", "height", "topics", "price"], *rows])
        write(type_in.folder / "links.csv", [["source", "target"], *ring()])
        words = ("data", "import", "--edges", "links.csv", "--features", "nodes.csv")
        told = type_in(*words, "--label", "topics", "--drop", "price", "--out", "t.npz")[2]
        assert "(--task multilabel); --task classification takes it" in told
        shown = type_in("data", "info", "t.npz")[1]
        assert re.search(r"labeled nodes +20\n +nodes per class +10, 20\n", re.sub(r" +\n", "\n", shown))
        assert "% of the propagation matrix" in shown
        words = (*words, "--label", "price", "--task", "regression", "--drop", "topics", "--out", "p.npz")
        assert type_in(*words)[0] == 0
        assert re.search(r"labeled nodes +20 ", type_in("data", "info", "p.npz")[1])
