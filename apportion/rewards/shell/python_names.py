"""Functions of Python's library that touch files or run programs, by what they do."""

from __future__ import annotations

__all__ = [
    "BELOW",
    "COPIES",
    "DELETES",
    "DYNAMIC",
    "FIXTURES",
    "LINKS",
    "LOOKERS",
    "MOVES",
    "OPENS",
    "PATH_METHODS",
    "PROCESSES",
    "QUIET",
    "SHELLS",
    "UNPACKS",
]

DELETES = {"os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree", "send2trash.send2trash"}
BELOW = {"shutil.rmtree", "os.removedirs", "send2trash.send2trash"}
MOVES = {"os.rename", "os.replace", "shutil.move", "os.renames"}
COPIES = {"shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree"}
LINKS = {"os.symlink", "os.link"}
SHELLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "commands.getoutput",
    "pexpect.run",
    "pexpect.spawn",
    "invoke.run",
    "pty.spawn",
}
_HOW = ("v", "vp", "ve", "vpe", "l", "lp", "le", "lpe")
PROCESSES = {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output",
              "subprocess.Popen",
              *(f"os.{kind}{how}" for kind in ("exec", "spawn") for how in _HOW),
              "os.posix_spawn",
              "asyncio.create_subprocess_shell", "asyncio.create_subprocess_exec"}  # fmt: skip
UNPACKS = {"shutil.unpack_archive"}
OPENS = {"open", "io.open", "codecs.open", "os.open", "gzip.open", "os.fdopen"}
DYNAMIC = {"exec", "eval", "compile", "runpy.run_path", "marshal.loads", "pickle.loads", "types.FunctionType"}
# They look at a function and do not call it.
LOOKERS = {"print", "repr", "str", "type", "help", "dir", "id", "callable", "isinstance", "inspect.getsource", "vars"}
PATH_METHODS = {"unlink": "delete", "rmdir": "delete", "write_text": "write", "write_bytes": "write", "touch": "write",
                 "rmtree": "delete", "remove_p": "delete"}  # fmt: skip


# Decorators that do not call the function they are given.
QUIET = {"staticmethod", "classmethod", "property", "functools.cache", "functools.lru_cache", "abc.abstractmethod"}
FIXTURES: dict[str, str] = {"tmp_path": "/tmp/tmp.apportion", "tmpdir": "/tmp/tmp.apportion"}
