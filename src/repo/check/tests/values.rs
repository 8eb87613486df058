//! E1101, E1111, E1133, E1136.

mod no_member {
    use crate::repo::check::tests::cases;
    cases! {
        an_attribute_of_self: "class K:\n    def __init__(self):\n        self.size = 1\n    def f(self):\n        return self.sice #! E1101\n";
        an_attribute_of_an_instance: "class K:\n    size = 1\nprint(K().sice) #! E1101\n";
        an_attribute_of_a_class: "class K:\n    size = 1\nprint(K.sice) #! E1101\n";
        a_method_of_a_string: "print('a'.uper()) #! E1101\n";
        a_method_of_a_container: "xs = []\nxs.apend(1) #! E1101\n";
        a_name_of_a_module: "import textwrap\nprint(textwrap.undent) #! E1101\n";
        a_name_of_a_project_module: "import other\nprint(other.gone) #! E1101\n#- other.py\nhere = 1\n";
        an_attribute_across_files: "from other import K\ndef f():\n    return K().gone #! E1101\n#- other.py\nclass K:\n    here = 1\n";
        a_chain: "class A:\n    def b(self):\n        return B()\nclass B:\n    def c(self):\n        return 1\nA().b().d() #! E1101\n";
        a_deleted_or_augmented_attribute: "class K:\n    n = 1\nk = K()\nk.m.n = 2 #! E1101\n";
        super_of_a_known_base: "class A:\n    def f(self): pass\nclass B(A):\n    def f(self):\n        super().g() #! E1101\n";
        an_enum_member: "from enum import Enum\nclass Color(Enum):\n    RED = 1\nprint(Color.GREEN) #! E1101\n";
        a_data_class_field: "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(1).y) #! E1101\n";
        a_named_tuple_field: "from collections import namedtuple\nP = namedtuple('P', 'x y')\nprint(P(1, 2).z) #! E1101\n";
        all_alternatives_lack_it: "class A: pass\nclass B: pass\ndef f(c):\n    x = A() if c else B()\n    return x.gone #! E1101\n";
        one_alternative_has_it: "class A:\n    here = 1\nclass B: pass\ndef f(c):\n    x = A() if c else B()\n    return x.here\n";
        none_is_left_out: "class A:\n    x = None\n    def f(self):\n        return self.x.anything\n";
        a_hasattr_guard: "class K: pass\ndef f(k: K):\n    if hasattr(k, 'extra'):\n        return k.extra\n";
        a_caught_attribute_error: "class K: pass\ndef f():\n    try:\n        return K().gone\n    except AttributeError:\n        return None\n";
        an_error_that_a_test_expects: "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        with self.assertRaises(AttributeError):\n            'a'.gone\n";
        getattr_answers_for_anything: "class K:\n    def __getattr__(self, name):\n        return name\nprint(K().gone)\n";
        an_unknown_base: "from nowhere import Base #! E0401\nclass K(Base):\n    def f(self):\n        return self.gone\n";
        setattr_with_a_variable: "class K:\n    def fill(self, n):\n        setattr(self, n, 1)\n    def f(self):\n        return self.gone\n";
        setattr_with_a_constant_adds_one_name: "class K:\n    def fill(self):\n        setattr(self, 'made', 1)\n    def f(self):\n        return self.made, self.gone #! E1101\n";
        an_attribute_set_from_outside: "class K: pass\nk = K()\nk.made = 1\nprint(k.made, K().made)\n";
        an_attribute_set_on_something_unknown: "class K: pass\ndef mark(x):\n    x.made = 1\nprint(K().made)\n";
        a_subclass_may_have_it: "class A:\n    def f(self):\n        return self.extra\nclass B(A):\n    extra = 1\n";
        a_mixin_uses_what_it_is_mixed_with: "class SaveMixin:\n    def save(self):\n        return self.path\n";
        an_unknown_decorator: "from nowhere import deco #! E0401\n@deco\nclass K: pass\nprint(K().gone)\n";
        functions_take_attributes: "def f(): pass\nf.calls = 0\nprint(f.calls, f.other)\n";
        an_unknown_value: "def f(x):\n    return x.anything.at_all\n";
        an_annotated_library_type_may_be_a_subclass: "from typing import BinaryIO\ndef f(b: BinaryIO):\n    return b.read1(3)\n";
        a_module_with_getattr: "import other\nprint(other.anything)\n#- other.py\ndef __getattr__(name):\n    return name\n";
        a_submodule_that_is_not_here: "import pk.gone #! E0401\nprint(pk.gone.x, pk.more)\n#- pk/__init__.py\n";
        a_namespace_may_go_on_elsewhere: "import ns.a\nprint(ns.a, ns.b)\n#- ns/a.py\nx = 1\n";
        slots_are_attributes: "class K:\n    __slots__ = ('a', 'b')\ndef f(k: K):\n    return k.a, k.b\n";
        descriptors_with_set_only: "class D:\n    def __set__(self, obj, v):\n        obj.__dict__['x'] = v\nclass K:\n    x = D()\n    def f(self):\n        return self.x.anything\n";
        thread_local_attributes: "import threading\nlocal = threading.local()\nlocal.x = 1\nprint(local.x, local.y)\n";
        state_that_is_restored_adds_no_name: "class K:\n    def __init__(self):\n        self.a = 1\n    def __setstate__(self, state):\n        self.__dict__.update(state)\n    def f(self):\n        return self.b #! E1101\n";
        an_exception_with_attributes: "try:\n    pass\nexcept OSError as e:\n    print(e.errno, e.filename, e.args)\n";
        a_platform_test: "import os, sys\nif sys.platform == 'win32':\n    os.startfile('x')\n";
        a_narrowed_value: "class A:\n    a = 1\nclass B(A):\n    b = 1\ndef f(x: A):\n    if isinstance(x, B):\n        return x.b\n    return x.a\n";
        a_private_name_is_mangled: "class K:\n    def __init__(self):\n        self.__p = 1\n    def f(self):\n        return self.__p\n";
        a_property_has_the_members_of_its_value: "class K:\n    @property\n    def s(self):\n        return 'a'\n    def f(self):\n        return self.s.uper() #! E1101\n";
    }
}

mod no_return {
    use crate::repo::check::tests::cases;
    cases! {
        a_function_without_return: "def f():\n    print(1)\nx = f() #! E1111\n";
        a_method_without_return: "class K:\n    def m(self):\n        self.n = 1\nx = K().m() #! E1111\n";
        inside_a_function: "def f(a):\n    a.append(1)\ndef g():\n    y = f([]) #! E1111\n    return y\n";
        a_static_method_is_a_function: "def f(a):\n    for x in a:\n        print(x)\nx: object = f([]) #! E1111\n";
        across_files: "from other import go\nx = go() #! E1111\n#- other.py\ndef go():\n    print(1)\n";
        a_loop_that_ends: "def f():\n    while True:\n        break\nx = f() #! E1111\n";
        a_nested_return_is_not_its_own: "def f():\n    def g():\n        return 1\n    g()\nx = f() #! E1111\n";
        in_a_tuple_target: "def f():\n    print(1)\na, b = f() #! E1111\n";
        a_function_that_returns: "def f():\n    return 1\nx = f()\n";
        returning_nothing_in_one_place: "def f(a):\n    if a:\n        return\n    print(1)\nx = f(1)\n";
        a_generator: "def f():\n    yield 1\nx = f()\n";
        a_coroutine: "async def f():\n    print(1)\nx = f()\n";
        a_function_that_only_raises: "def f():\n    raise NotImplementedError\nx = f()\n";
        a_body_yet_to_be_written: "def f():\n    '''Later.'''\ndef g():\n    pass\ndef h(): ...\nx, y, z = f(), 1, 2\nx = f()\ny = g()\nz = h()\n";
        a_decorated_function: "import functools\n@functools.lru_cache\ndef f():\n    print(1)\nx = f()\n";
        a_method_that_a_subclass_overrides: "class A:\n    def m(self):\n        print(1)\n    def go(self):\n        x = self.m()\n        return x\nclass B(A):\n    def m(self):\n        return 1\n";
        one_of_several_functions: "def f():\n    print(1)\ndef g():\n    return 1\ndef h(c):\n    k = f if c else g\n    x = k()\n    return x\n";
        a_declared_result: "def f() -> int:\n    print(1)\nx = f()\n";
    }
}

mod not_iterable {
    use crate::repo::check::tests::cases;
    cases! {
        a_number: "for x in 5: #! E1133\n    pass\n";
        an_instance: "class K: pass\nfor x in K(): #! E1133\n    pass\n";
        in_a_comprehension: "xs = [x for x in 5] #! E1133\n";
        a_star_argument: "print(*5) #! E1133\n";
        a_star_in_a_display: "xs = [*5] #! E1133\n";
        a_function: "def f():\n    return []\nfor x in f: #! E1133\n    pass\n";
        a_module: "import json\nfor x in json: #! E1133\n    pass\n";
        yield_from: "def f():\n    yield from 5 #! E1133\n";
        a_result: "def n():\n    return 3\nfor x in n(): #! E1133\n    pass\n";
        an_instance_that_iterates: "class K:\n    def __iter__(self):\n        return iter([])\nfor x in K():\n    pass\n";
        an_instance_with_items: "class K:\n    def __getitem__(self, i):\n        return i\nfor x in K():\n    pass\n";
        an_enum: "from enum import Enum\nclass C(Enum):\n    A = 1\nfor c in C:\n    pass\n";
        a_metaclass_iterates: "class M(type):\n    def __iter__(cls):\n        return iter([])\nclass K(metaclass=M): pass\nfor x in K:\n    pass\n";
        builtin_containers: "for x in [1], (2,), {3}, {4: 5}, 'a', b'b', range(3), open('f'), zip(), map(str, []):\n    for y in x:\n        pass\n";
        generators_and_files: "def g():\n    yield 1\nfor x in g():\n    pass\nfor line in open('f'):\n    pass\n";
        an_unknown_value: "def f(x):\n    for y in x:\n        pass\n";
        maybe_none: "x = None\nfor y in x:\n    pass\n";
        a_caught_type_error: "try:\n    for x in 5:\n        pass\nexcept TypeError:\n    pass\n";
        an_async_loop: "class A:\n    def __aiter__(self):\n        return self\n    async def __anext__(self):\n        raise StopAsyncIteration\nasync def f():\n    async for x in A():\n        print(x)\n";
        a_base_that_is_unknown: "from nowhere import B #! E0401\nclass K(B): pass\nfor x in K():\n    pass\n";
    }
}

mod not_subscriptable {
    use crate::repo::check::tests::cases;
    cases! {
        a_number: "x = 5\nprint(x[0]) #! E1136\n";
        an_instance: "class K: pass\nprint(K()[0]) #! E1136\n";
        a_function: "def f():\n    return []\nprint(f[0]) #! E1136\n";
        a_module: "import json\nprint(json['a']) #! E1136\n";
        a_set: "print({1, 2}[0]) #! E1136\n";
        a_class: "class K: pass\nprint(K[0]) #! E1136\n";
        a_result: "def n():\n    return 3\nprint(n()[0]) #! E1136\n";
        an_attribute: "class K:\n    n = 1\n    def f(self):\n        return self.n[0] #! E1136\n";
        containers: "print([1][0], (1,)[0], {1: 2}[1], 'a'[0], b'a'[0], range(3)[0])\n";
        an_instance_with_items: "class K:\n    def __getitem__(self, i):\n        return i\nprint(K()[0])\n";
        a_class_with_items: "class K:\n    def __class_getitem__(cls, i):\n        return cls\nprint(K[0])\n";
        a_generic_class: "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Box(Generic[T]): pass\nclass New[U]: pass\nx = Box[int]\ny = New[int]\n";
        builtin_generics: "x = list[int]\ny = dict[str, int]\nz = type[int]\n";
        typing_forms: "from typing import Optional, Callable, Union\nX = Optional[int]\nY = Callable[[int], str]\nZ = Union[int, str]\n";
        an_enum: "from enum import Enum\nclass C(Enum):\n    A = 1\nprint(C['A'])\n";
        a_metaclass_with_items: "class M(type):\n    def __getitem__(cls, i):\n        return i\nclass K(metaclass=M): pass\nprint(K[0])\n";
        maybe_none: "x = None\nprint(x[0])\n";
        items_that_are_only_assigned: "class K:\n    def __setitem__(self, k, v): pass\nk = K()\nk[0] = 1\n";
        a_typed_dict_and_a_named_tuple: "from typing import NamedTuple, TypedDict\nclass D(TypedDict):\n    a: int\nclass P(NamedTuple):\n    x: int\ndef f(d: D, p: P):\n    return d['a'], p[0]\n";
        an_unknown_value: "def f(x):\n    return x[0]\n";
        annotations_are_left_alone: "import queue\ndef f(q: 'queue.Queue[int]') -> 'queue.Queue[int]':\n    return q\n";
    }
}
