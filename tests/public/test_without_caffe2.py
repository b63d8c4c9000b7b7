"""install() where Caffe2 is not there, or does not work: one error, and what to do about it."""

import subprocess
import sys

import pytest

PROGRAM = """
import ctrlgrad, ctrlgrad.caffe2, sys
assert not any(name.partition(".")[0] in ("caffe2", "torch") for name in sys.modules)
ctrlgrad.uninstall()
assert ctrlgrad.build_info()["installed"] == "no"
for attempt in (ctrlgrad.install, ctrlgrad.installed().__enter__):
    try:
        attempt()
    except ctrlgrad.MissingPackageError as error:
        assert isinstance(error, ImportError)
        assert 'pip install "torch==1.10.2" "ctrlgrad[caffe2]"' in str(error)
        print(error)
    else:
        raise AssertionError("no error")
assert ctrlgrad.build_info()["installed"] == "no"
"""

# What stands in caffe2/python/core.py, and what the error has to tell of it.
BROKEN = {
    "not installed": ("raise ModuleNotFoundError('No module named caffe2')", "No module named"),
    "protobuf too new": (
        "raise TypeError('Descriptors cannot be created directly.')",
        "TypeError: Descriptors cannot be created directly",
    ),
    "no extension": ("import sys; sys.exit('no extension')", "no extension"),
}


@pytest.mark.parametrize("why", BROKEN)
def test_install_says_what_to_do(tmp_path, why):
    core, told = BROKEN[why]
    package = tmp_path / "caffe2" / "python"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "core.py").write_text(core)
    program = "import sys; sys.path.insert(0, %r)\n%s" % (str(tmp_path), PROGRAM)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(told) == 2
