//! Kinds of faults that asking at every name of real packages brought to light.
//!
//! # Place
//! Test code.

use super::check;

const Z: &str = "class Z:\n    def zap(self): ...\n";

#[track_caller]
fn check_z(text: &str, expect: &str) {
    check(&format!("{Z}{text}"), expect);
}

mod more_names_than_declared {
    use super::*;
    cases! {
        an_abstract_type_of_the_library_asks_for_less_than_there_is:
            "from collections.abc import Mapping\ndef f(m: Mapping):\n    return m.█\n", "+items open";
        a_file_type_is_what_some_class_implements:
            "from typing import IO\ndef f(s: IO):\n    return s.█\n", "+read open";
        a_declared_value_keeps_what_its_narrower_type_adds:
            "class Base:\n    def low(self): ...\nclass More(Base):\n    def high(self): ...\ndef f():\n    x: Base = More()\n    return x.█\n", "+low +high";
        a_display_assigned_to_a_wider_declaration:
            "from collections.abc import Sequence\ndef f():\n    x: Sequence[int] = []\n    return x.█\n", "+append +index";
        a_base_exception_may_be_one_of_its_subclasses:
            "def f(e: UnicodeError):\n    return e.█\n", "+object +start +args";
        threading_locals_take_any_name:
            "import threading\nlocal = threading.local()\ndef f():\n    return local.█\n", "open";
        sys_is_open: "import sys\ndef f():\n    return sys.█\n", "+argv open";
        builtins_is_open: "import builtins\ndef f():\n    return builtins.█\n", "+len open";
        any_class_has_more_than_type: "def f(k: type):\n    return k.█\n", "+__name__ open";
    }
}

mod guards {
    use super::*;
    #[test]
    fn hasattr_vouches_for_a_name() {
        check_z("def f(z: Z):\n    if hasattr(z, 'more'):\n        return z.█\n", "+zap open");
    }
    #[test]
    fn getattr_as_a_test_vouches_for_a_name() {
        check_z(
            "def f(z: Z):\n    if getattr(z, 'more', None):\n        return z.█\n",
            "+zap open",
        );
    }
    #[test]
    fn getattr_that_is_not_none_vouches_for_a_name() {
        let text =
            "def f(z: Z):\n    if getattr(z, 'more', None) is not None:\n        return z.█\n";
        check_z(text, "+zap open");
    }
    #[test]
    fn a_test_of_another_value_vouches_for_nothing() {
        check_z("def f(z: Z, o):\n    if hasattr(o, 'more'):\n        return z.█\n", "+zap closed");
    }
    #[test]
    fn an_expected_attribute_error_opens() {
        let text = "def f(z: Z):\n    with raises(AttributeError):\n        z.█\n";
        check_z(text, "+zap open");
    }
    cases! {
        a_caught_import_error_opens_an_import:
            "def f():\n    try:\n        from lib import █\n    except ImportError:\n        pass\n#- lib.py\none = 1\n", "+one open";
        a_suppressed_import_error_opens_an_import:
            "def f():\n    with suppress(ImportError):\n        from lib import █\n#- lib.py\none = 1\n", "+one open";
        an_import_without_a_net_is_closed:
            "def f():\n    from lib import █\n#- lib.py\none = 1\n", "+one closed";
    }
}

mod places {
    use super::*;
    cases! {
        import_may_follow_the_dots_of_a_relative_import:
            "#- pk/__init__.py\n#- pk/a.py\nx = 1\n#- pk/b.py\ndef f():\n    from . █\n", "+a open";
        a_module_path_after_the_dots_is_closed:
            "#- pk/__init__.py\n#- pk/sub/__init__.py\n#- pk/sub/a.py\nx = 1\n#- pk/b.py\ndef f():\n    from .sub.█\n", "+a closed";
        a_parameter_does_not_hide_a_module_in_its_own_annotation:
            "import lib\ndef f(lib: lib.█\n#- lib.py\nclass Inner: ...\n", "+Inner";
        a_default_does_not_see_the_parameters:
            "import lib\ndef f(lib, x=lib.█\n#- lib.py\nclass Inner: ...\n", "+Inner";
    }
}

mod attributes_from_elsewhere {
    use super::*;
    cases! {
        set_where_the_package_is_imported:
            "import pk\ndef f(c: pk.core.C):\n    return c.█\n#- pk/__init__.py\nfrom pk import core\n#- pk/core.py\nclass C:\n    one = 1\n#- test.py\nimport pk\nc = pk.core.C()\nc.extra = 3\n", "+one +extra";
        set_on_a_value_of_unknown_class:
            "class G:\n    one = 1\ndef freeze(g):\n    g.frozen = True\ndef f(g: G):\n    return g.█\n", "+one +frozen";
        a_descriptor_that_only_hears_of_stores:
            "class Reset:\n    def __set__(self, obj, value): ...\nclass G:\n    adj = Reset()\ndef f(g: G):\n    return g.adj.█\n", "unknown";
        super_in_a_class_without_bases_is_made_to_be_mixed_in:
            "class Mixin:\n    def draw(self):\n        return super().█\n", "open";
        super_with_a_subclass_of_unknown_bases:
            "from nowhere import Thing\nclass A:\n    def one(self): ...\nclass B(A):\n    def draw(self):\n        return super().█\nclass C(B, Thing): ...\n", "+one open";
        super_with_known_bases_is_closed:
            "class A:\n    def one(self): ...\nclass B(A):\n    def draw(self):\n        return super().█\n", "+one closed";
    }
}

mod results {
    use super::*;
    #[test]
    fn a_list_of_none_waits_for_other_values() {
        let text = "class N:\n    def __init__(self):\n        self.slots = [None for _ in range(3)]\n    \
                    def f(self):\n        n = self.slots[0]\n        while n is not None:\n            n.█\n";
        check_z(text, "unknown");
    }
    #[test]
    fn object_new_of_a_class_is_its_instance() {
        check_z("def f():\n    return object.__new__(Z).█\n", "+zap");
    }
    #[test]
    fn a_class_with_a_new_of_its_own_is_made_all_the_same() {
        let text = "class G(Z):\n    def __new__(cls, *args):\n        return object.__new__(cls)\n\
                    def f():\n    return G().█\n";
        check_z(text, "+zap closed");
    }
    #[test]
    fn a_decorator_that_returns_the_class_it_was_given() {
        let text = "from typing import Type, TypeVar\nT = TypeVar('T')\ndef auto(cls: Type[T]) -> Type[T]: ...\n\
                    @auto\nclass Y(Z):\n    @classmethod\n    def make(cls): ...\ndef f():\n    return Y.█\n";
        check_z(text, "+zap +make");
    }
    cases! {
        a_literal_mode_chooses_the_overload:
            "def f(path: str):\n    with open(path, 'rb') as f:\n        data = f.read()\n    return data.█\n", "+decode -encode";
        text_mode_reads_text:
            "def f(path: str):\n    with open(path, 'r') as f:\n        data = f.read()\n    return data.█\n", "+encode -decode";
        a_literal_flag_chooses_the_overload:
            "from lib import get\ndef f():\n    return get(raw=True).█\n#- lib.pyi\nfrom typing import Literal, overload\n@overload\ndef get(*, raw: Literal[False] = ...) -> str: ...\n@overload\ndef get(*, raw: Literal[True]) -> bytes: ...\n#- lib.py\ndef get(raw=False): ...\n", "+decode -encode";
    }
}

mod stubs {
    use super::*;
    cases! {
        what_a_stub_leaves_out_it_means_to_inherit:
            "import lib\nlib.K().get().█\n#- lib.pyi\nclass Z:\n    def zap(self) -> None: ...\nclass B:\n    def get(self) -> Z: ...\nclass K(B): ...\n#- lib.py\nclass B:\n    def get(self): ...\nclass K(B):\n    def get(self):\n        return helper()\n", "+zap closed";
        a_stub_that_takes_any_attribute_is_open:
            "import lib\ndef f(k: lib.K):\n    return k.█\n#- lib.pyi\nclass K:\n    one: int\n    def __setattr__(self, name: str, value: object) -> None: ...\n#- lib.py\n", "+one open";
        a_package_that_takes_its_module_by_another_name:
            "import pk\npk.path.█\n#- pk/__init__.py\nfrom . import path as _path\npath = _path\n#- pk/path.py\ndef join(): ...\n", "+join";
    }
}

mod set_in_the_function {
    use super::*;
    cases! {
        another_instance_of_the_class_whose_constructor_is_being_written:
            "class Node:\n    def __init__(self, parent: 'Node'):\n        x = parent.█\n    def up(self): ...\n", "+up open";
        an_attribute_set_in_the_function_being_written:
            "class C:\n    one = 1\ndef f():\n    c = C()\n    c.extra = 2\n    return c.█\n", "+one +extra";
        an_attribute_set_on_a_parameter_of_the_function_being_written:
            "class C:\n    one = 1\ndef f(c: C):\n    c.extra = 2\n    print(c.█", "+one +extra";
    }
}
