"""Finds what a Python script imports: its local modules, and the framework that it trains with."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pliant.cli.input.problems import InvalidInput, SourceLocation, input_error

GENERIC = "generic"
SCRIPT_FRAMEWORKS = (GENERIC, "pytorch", "tensorflow", "mxnet", "paddle", "jax", "xgboost", "deepspeed", "mpi")
MAX_SCRIPT_BYTES = 4 * 1024 * 1024

# In order of precedence: a script for DeepSpeed or MPI imports the framework that computes, too.
FRAMEWORK_MODULES: tuple[tuple[str, frozenset[str]], ...] = (
    ("mpi", frozenset({"mpi4py", "horovod"})),
    ("deepspeed", frozenset({"deepspeed"})),
    ("pytorch", frozenset({"torch", "lightning", "pytorch_lightning", "accelerate", "torchrun"})),
    ("tensorflow", frozenset({"tensorflow", "tf_keras"})),
    ("jax", frozenset({"jax", "flax", "optax", "equinox"})),
    ("paddle", frozenset({"paddle", "paddlenlp"})),
    ("mxnet", frozenset({"mxnet", "gluonnlp", "gluoncv"})),
    ("xgboost", frozenset({"xgboost", "lightgbm"})),
    # Both run on several frameworks, which a script may name besides.
    ("pytorch", frozenset({"transformers", "diffusers", "trl", "peft"})),
    ("tensorflow", frozenset({"keras"})),
)

_ALL_FRAMEWORK_MODULES = frozenset().union(*(modules for _, modules in FRAMEWORK_MODULES))


@dataclass(slots=True)
class ScriptImports:
    """The modules that a script imports, itself or through its local modules."""

    script: Path
    local_files: list[Path] = field(default_factory=list)
    """The files of the local modules, without the script."""
    modules: dict[str, None] = field(default_factory=dict)
    """The names of the other top-level modules, in the order of their first import."""

    @property
    def root(self) -> Path:
        """The directory in which Python looks for local modules: of a link, that of its target."""
        return self.script.resolve().parent if self.script.is_symlink() else self.script.parent

    def detect_framework(self) -> tuple[str, str]:
        """Return the framework and the module that shows it; both are empty if no known framework is imported."""
        for framework, names in FRAMEWORK_MODULES:
            for module in self.modules:
                if module in names:
                    return framework, module
        return "", ""


def find_imports(script: Path) -> ScriptImports:
    """Parse a script and, recursively, the local modules that it imports; raise InvalidInput for invalid Python."""
    found = ScriptImports(script)
    seen = {script.resolve()}
    waiting = [script]
    while waiting:
        path = waiting.pop(0)
        if path is not script:
            found.local_files.append(path)
        package = () if path is script else path.relative_to(found.root).parts[:-1]
        for name in _imported_names(path, package):
            files = _local_module_files(found.root, name)
            if script in files and script.stem in _ALL_FRAMEWORK_MODULES:
                raise _hidden_module_error(script)
            if not files:
                found.modules.setdefault(name.partition(".")[0])
            for file in files:
                if file.resolve() not in seen:
                    seen.add(file.resolve())
                    waiting.append(file)
    found.local_files.sort()
    return found


def _hidden_module_error(script: Path) -> InvalidInput:
    """Return the error for a script with the name of a framework: Python would import the script instead."""
    name = script.stem
    location = SourceLocation(source=str(script))
    fix = f"rename the file, for example to train_{name}.py"
    return input_error(f"`import {name}` imports this script itself, not the framework", location=location, fix=fix)


def _imported_names(path: Path, package: tuple[str, ...]) -> Iterator[str]:
    """Yield the full names of the imported modules; a name may be that of an attribute of a module."""
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*parents, *([node.module] if node.module else [])))
            # An imported name may be a submodule: `from package import module`.
            yield from (f"{module}.{alias.name}".lstrip(".") for alias in node.names)


def _parse(path: Path) -> ast.Module:
    try:
        data = path.read_bytes()
    except OSError as error:
        location = SourceLocation(source=str(path))
        fix = "check the path" if isinstance(error, FileNotFoundError) else ""
        raise input_error(f"cannot read: {error.strerror}", location=location, fix=fix) from None
    if len(data) > MAX_SCRIPT_BYTES:
        size = f"larger than {MAX_SCRIPT_BYTES // 1024 // 1024} MiB"
        raise input_error(size, location=SourceLocation(source=str(path)), fix="is it a Python script?")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # Python shows them when it runs the script
            return ast.parse(data, str(path))
    except SyntaxError as error:
        location = SourceLocation(
            source=str(path), line=error.lineno or 0, column=error.offset or 1, text=(error.text or "").rstrip("\n")
        )
        raise input_error(f"not valid Python: {error.msg}", location=location, fix="correct this line") from None
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "nested too deeply"
        raise input_error(f"not valid Python: {reason}", location=SourceLocation(source=str(path))) from None


def _local_module_files(root: Path, name: str) -> list[Path]:
    """Return the files that `import name` loads from a directory; empty if the module is not in it."""
    files: list[Path] = []
    directory = root
    for part in name.split("."):
        directory, module = directory / part, directory / f"{part}.py"
        if (directory / "__init__.py").is_file():
            files.append(directory / "__init__.py")
        elif module.is_file():
            return [*files, module]
        elif not directory.is_dir() or not part.isidentifier():
            break  # the rest is an attribute, or the module is not local
    return files
