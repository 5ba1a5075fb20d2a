"""Public names of a package that are loaded on first use, so that a program loads only what it uses."""

import sys

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def load_on_use(
    package: str,
    homes: "Mapping[str, str]",
    *,
    modules: "Mapping[str, str] | None" = None,
    table: str = "",
    omitted: "tuple[str, ...]" = (),
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return ``__getattr__`` and ``__dir__`` of a package.

    - ``homes``: the module that has each name, below the package
    - ``modules``: names of modules, and where these are, below the package
    - ``table``: a module whose names in ``PUBLIC`` are public here too, except those that are ``omitted``;
      it is loaded for them, or for ``__all__``
    """

    def import_module(name: str) -> "Any":
        from importlib import import_module  # loads some modules itself

        return import_module(name)

    def names_of_table() -> "set[str]":
        return set(import_module(table).PUBLIC).difference(omitted) if table else set()

    def load(name: str) -> "Any":
        value: Any
        if name in homes:
            value = getattr(import_module(f"{package}.{homes[name]}"), name)
        elif modules and name in modules:
            value = import_module(f"{package}.{modules[name]}")
        elif table and name == "__all__":
            value = sorted({*homes, *names_of_table()})
        elif name in names_of_table():
            value = getattr(import_module(table), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> "list[str]":
        public = getattr(sys.modules[package], "__all__")  # noqa: B009 (a module does not declare it)
        return sorted({*public, *homes, *(modules or ())})

    return load, names
