//! E1102, E1120, E1121, E1123.

mod not_callable {
    use crate::repo::check::tests::cases;
    cases! {
        a_number: "x = 5\nx() #! E1102\n";
        a_string: "'a'() #! E1102\n";
        an_instance: "class K: pass\nK()() #! E1102\n";
        a_module: "import json\njson() #! E1102\n";
        a_list: "xs = []\nxs(0) #! E1102\n";
        a_property_called: "class K:\n    @property\n    def size(self):\n        return 1\n    def f(self):\n        return self.size() #! E1102\n";
        a_tuple: "t = (1, 2)\nt() #! E1102\n";
        a_result: "def n():\n    return 3\nn()() #! E1102\n";
        an_instance_with_call: "class K:\n    def __call__(self):\n        return 1\nK()()\n";
        functions_classes_and_methods: "class K:\n    def m(self): pass\ndef f(): pass\nf()\nK().m()\n(lambda: 1)()\n";
        an_unknown_value: "def f(x):\n    x()\n    x.y()\n";
        maybe_none: "handler = None\ndef f():\n    handler()\n";
        a_subclass_may_have_call: "class A:\n    def go(self):\n        return self()\nclass B(A):\n    def __call__(self):\n        return 1\n";
        an_unknown_base: "from nowhere import Base #! E0401\nclass K(Base): pass\nK()()\n";
        an_annotated_object: "def f(x: object):\n    return x()\n";
        partials_and_builtin_callables: "import functools, operator\nfunctools.partial(print)()\noperator.itemgetter(0)([1])\noperator.attrgetter('a')\n";
        one_alternative_is_callable: "def g(): pass\ndef f(c):\n    x = g if c else 3\n    return x()\n";
        a_callable_test_is_heeded: "def f(c):\n    try:\n        return 5()\n    except TypeError:\n        return 0\n";
        a_metaclass_with_call: "class M(type):\n    def __call__(cls, *a):\n        return lambda: 1\nclass K(metaclass=M): pass\nK()()\n";
    }
}

mod arguments {
    use crate::repo::check::tests::cases;
    cases! {
        a_missing_argument: "def f(a, b):\n    return a, b\nf(1) #! E1120\n";
        a_missing_argument_of_a_method: "class K:\n    def m(self, a):\n        return a\nK().m() #! E1120\n";
        a_missing_argument_of_a_constructor: "class K:\n    def __init__(self, a):\n        self.a = a\nK() #! E1120\n";
        a_missing_argument_of_an_inherited_constructor: "class A:\n    def __init__(self, a):\n        self.a = a\nclass B(A): pass\nB() #! E1120\n";
        an_unbound_method_without_self: "class K:\n    def m(self, a):\n        return a\nK.m(1) #! E1120\n";
        a_missing_argument_across_files: "from other import f\nf() #! E1120\n#- other.py\ndef f(a):\n    return a\n";
        a_missing_argument_of_a_class_method: "class K:\n    @classmethod\n    def m(cls, a):\n        return a\nK.m() #! E1120\n";
        a_missing_argument_of_a_static_method: "class K:\n    @staticmethod\n    def m(a):\n        return a\nK.m() #! E1120\n";
        too_many_arguments: "def f(a):\n    return a\nf(1, 2) #! E1121\n";
        too_many_for_a_method: "class K:\n    def m(self):\n        return 1\nK().m(1) #! E1121\n";
        too_many_for_a_constructor: "class K:\n    def __init__(self):\n        self.a = 1\nK(1) #! E1121\n";
        too_many_for_a_class_without_constructor: "class K:\n    pass\nK(1) #! E1121\n";
        keyword_only_takes_no_position: "def f(*, a):\n    return a\nf(1) #! E1121\n";
        too_many_in_self_call: "class K:\n    def a(self, x): return x\n    def b(self):\n        return self.a(1, 2) #! E1121\n";
        too_many_for_a_nested_function: "def f():\n    def g(a): return a\n    return g(1, 2) #! E1121\n";
        too_many_for_super: "class A:\n    def m(self): pass\nclass B(A):\n    def m(self):\n        super().m(1) #! E1121\n";
        an_unknown_keyword: "def f(a):\n    return a\nf(1, b=2) #! E1123\n";
        an_unknown_keyword_of_a_method: "class K:\n    def m(self, a=1):\n        return a\nK().m(b=2) #! E1123\n";
        an_unknown_keyword_of_a_constructor: "class K:\n    def __init__(self, a=1):\n        self.a = a\nK(b=2) #! E1123\n";
        an_unknown_keyword_beside_a_missing_one: "def f(a):\n    return a\nf(b=2) #! E1120 E1123\n";
        a_positional_only_name: "def f(a, /, b=1):\n    return a, b\nf(1, a=2) #! E1123\n";
        a_misspelt_keyword: "def f(a, colour=None):\n    return a, colour\nf(1, color=2) #! E1123\n";
        an_unknown_keyword_of_a_static_method: "class K:\n    @staticmethod\n    def m(a=1): return a\nK.m(b=1) #! E1123\n";
        an_unknown_keyword_of_a_class_method: "class K:\n    @classmethod\n    def m(cls, a=1): return a\nK.m(b=1) #! E1123\n";
        defaults_and_keywords_fill: "def f(a, b=1, *, c=2):\n    return a, b, c\nf(1)\nf(a=1)\nf(1, 2, c=3)\nf(b=2, a=1)\n";
        stars_may_pass_anything: "def f(a, b):\n    return a, b\nargs = [1, 2]\nkw = {}\nf(*args)\nf(1, **kw)\nf(*args, **kw)\n";
        stars_may_take_anything: "def f(*args, **kw):\n    return args, kw\nf(1, 2, 3, a=4)\n";
        an_unknown_decorator_may_change_the_signature: "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def inner(*a, **k):\n        return g(1, *a, **k)\n    return inner\n@deco\ndef f(a, b):\n    return a, b\nf(2)\n";
        a_context_manager: "import contextlib\n@contextlib.contextmanager\ndef f(a):\n    yield a\nwith f(1) as x:\n    print(x)\n";
        overloads_are_left_alone: "from typing import overload\n@overload\ndef f(a: int) -> int: ...\n@overload\ndef f(a: str, b: int) -> str: ...\ndef f(a, b=None): return a\nf('x', 1)\n";
        a_subclass_may_override: "class A:\n    def m(self, a): return a\n    def go(self):\n        return self.m()\nclass B(A):\n    def m(self, a=1): return a\n";
        data_classes_and_named_tuples: "from dataclasses import dataclass\nfrom typing import NamedTuple\n@dataclass\nclass P:\n    x: int\n    y: int = 0\nclass Q(NamedTuple):\n    a: int\nP(1, 2)\nQ(1)\nP(x=1)\n";
        new_decides: "class K:\n    def __new__(cls, a):\n        return super().__new__(cls)\nK(1)\n";
        an_unknown_base_may_take_anything: "from nowhere import Base #! E0401\nclass K(Base): pass\nK(1, 2, a=3)\n";
        exceptions_take_anything: "class E(Exception): pass\nE('a', 1)\nraise E('b')\n";
        a_metaclass_may_take_anything: "class M(type):\n    def __call__(cls, *a):\n        return 1\nclass K(metaclass=M): pass\nK(1)\n";
        an_expected_type_error: "def f(a):\n    return a\ntry:\n    f()\nexcept TypeError:\n    pass\n";
        a_function_chosen_at_run_time: "def f(a): return a\ndef g(): return 1\ndef h(c):\n    k = f if c else g\n    return k()\n";
        enums_are_looked_up: "from enum import Enum\nclass C(Enum):\n    A = 1\nC(1)\n";
        a_partial: "import functools\ndef f(a, b): return a, b\nfunctools.partial(f, 1)(2)\n";
    }
}
