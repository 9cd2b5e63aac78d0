"""What Python code does, and what it only mentions."""

from __future__ import annotations

import pytest

from apportion.rewards.shell import State, Workspace, analyse


def deeds(code: str) -> list[str]:
    effects = analyse(code, State(Workspace()), language="python")
    return [
        f"{effect.kind} {effect.path.removeprefix('/workspace/')}".strip() for effect in effects if effect.kind != "run"
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os\nos.remove('a')", ["delete a"]),
        ("import os as o, shutil\nf = o.path.join('d', 'a')\nshutil.rmtree(f)", ["delete d/a"]),
        ("from os import remove as r\nfor x in ['a', 'b']:\n    r(x)", ["delete a", "delete b"]),
        ("from pathlib import Path\np = Path('d') / 'a'\np.write_text(p.read_text())", ["read d/a", "write d/a"]),
        ("with open('a') as f: s = f.read()\nopen('a', 'w').write(s)", ["read a", "write a"]),
        ("import os\nf = os.unlink\nf('a')", ["delete a"]),
        ("import os\ngetattr(os, 'un' + 'link')('a')", ["delete a"]),
        ("import os\nvars(os)['unlink']('a')", ["delete a"]),
        ("import os\nos.__dict__['unlink']('a')", ["delete a"]),
        ("n = 'a'\nopen(f'{n}.py', 'a')", ["write a.py"]),
        ("open('%s.py' % 'a', mode='x')", ["write a.py"]),
        ("import os\nos.system('rm a')", ["delete a"]),
        ("import subprocess\nsubprocess.run(['rm', 'a'], cwd='d')", ["delete d/a"]),
        ("exec('import os; os.remove(chr(97))')", ["delete a"]),
        ("import os\ndef main():\n    os.remove('a')\nmain()", ["delete a"]),
        ("import os\nos.chdir('d')\nos.remove('a')", ["delete d/a"]),
        ("import os\ntry:\n    pass\nfinally:\n    os.remove('a')", ["delete a"]),
        ("import os\nmatch 1:\n    case 1:\n        os.remove('a')", ["delete a"]),
        ("import os\nx = [os.remove(p) for p in ['a']]", ["delete a"]),
        ("import shutil\nshutil.move('a', 'b')", ["delete a", "write b"]),
        ("import os\nos.symlink('tests', 't')\nopen('t/x', 'w')", ["write t", "write tests/x"]),
        ("%cd src\n!rm a", ["delete a"]),
    ],
)
def test_deeds(code: str, expected: list[str]) -> None:
    assert deeds(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "print('os.remove(a)')",
        "import os\ndef clean():\n    os.remove('a')",
        "# os.remove('a')",
        "'''\nos.remove('a')\n'''",
        "x = 'a'.replace('a', 'b')",
        "names = ['a']\nnames.remove('a')",
        "import os\nprint(os.remove)",
        "open",
        "import tarfile\ntarfile.open('x.tgz')",
    ],
)
def test_mentions(code: str) -> None:
    assert [deed for deed in deeds(code) if not deed.startswith("unknown")] == []


@pytest.mark.parametrize(
    "code",
    [
        "exec(input())",
        "import os\nos.system(x)",
        "import os\ngetattr(os, name)('a')",
        "def broken(:",
        "(" * 2_000,
        "import ctypes\nctypes.CDLL(None).unlink(b'a')",
        "import subprocess\nlist(map(subprocess.run, commands))",
    ],
)
def test_what_nobody_can_know_is_unknown(code: str) -> None:
    assert any(deed.startswith("unknown") for deed in deeds(code))
