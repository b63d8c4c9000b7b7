"""load and save."""

import pathlib

import ctrlgrad
import pytest
from ctrlgrad import caffe2_pb2, load, save
from nets import mlp, net


@pytest.mark.parametrize(
    "name", ["net.pb", "net.pbtxt", "net.prototxt", "net.txt", "net", "NET.PBTXT"]
)
@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_round_trip(name, kind, tmp_path):
    path = kind(tmp_path / name)
    save(mlp(), path)
    assert load(path) == mlp()
    text = name.lower().endswith(("txt",))
    assert (b"op {" in pathlib.Path(path).read_bytes()) == text


def test_content_decides(tmp_path):
    save(mlp(), tmp_path / "binary.pb")
    save(mlp(), tmp_path / "text.pbtxt")
    (tmp_path / "binary.pb").rename(tmp_path / "binary.pbtxt")
    (tmp_path / "text.pbtxt").rename(tmp_path / "text.pb")
    assert load(tmp_path / "binary.pbtxt") == mlp()
    assert load(tmp_path / "text.pb") == mlp()


@pytest.mark.parametrize(
    "name", ["a", "a net with a long name, so that its length is a letter " * 2]
)
def test_nets_without_operators(name, tmp_path):
    for ending in (".pb", ".pbtxt"):
        save(net(name=name), tmp_path / ("net" + ending))
        assert load(tmp_path / ("net" + ending)).name == name
        (tmp_path / ("empty" + ending)).touch()
        assert load(tmp_path / ("empty" + ending)) == caffe2_pb2.NetDef()


def test_text_with_comments(tmp_path):
    path = tmp_path / "net.pb"
    path.write_text("# written by hand\n\nname: 'net'\nop { type: 'Relu' input: 'x' }\n")
    assert load(path).op[0].type == "Relu"


@pytest.mark.parametrize(
    "data", [b"garbage", b"\x0a\x7f", b"\x00\x01\x02", b"op { typo: 'Relu' }", b"\xff\xfe"]
)
@pytest.mark.parametrize("ending", [".pb", ".pbtxt"])
def test_files_that_hold_no_net(data, ending, tmp_path):
    path = tmp_path / ("net" + ending)
    path.write_bytes(data)
    with pytest.raises(ctrlgrad.MalformedError, match="net" + ending) as caught:
        load(path)
    assert isinstance(caught.value, ValueError)


def test_mistake_in_a_text_is_told_with_its_line(tmp_path):
    path = tmp_path / "net.pbtxt"
    path.write_text("name: 'net'\nop {\n  typo: 'Relu'\n}\n")
    with pytest.raises(ctrlgrad.MalformedError, match=r"3:.*typo"):
        load(path)


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.pb")


def test_answers_are_saved(tmp_path):
    answer = ctrlgrad.backward(mlp(), ["loss"])
    save(answer.ops_bytes, tmp_path / "gradient.pb")
    save(answer.ops_bytes, tmp_path / "gradient.pbtxt")
    assert list(load(tmp_path / "gradient.pb").op) == answer.ops
    assert list(load(tmp_path / "gradient.pbtxt").op) == answer.ops
