//! E0602, E0401, E0611, E0001, E0102, E0213.

mod undefined_variable {
    use crate::repo::check::tests::cases;
    cases! {
        a_name_that_nothing_binds: "def f():\n    return total #! E0602\n";
        a_name_at_module_level: "print(totl) #! E0602\n";
        a_name_in_a_default_and_a_decorator: "@wraps #! E0602\ndef f(x=limit): #! E0602\n    return x\n";
        a_name_of_a_class_is_not_seen_in_its_methods: "class K:\n    size = 1\n    def f(self):\n        return size #! E0602\n";
        a_deleted_name_is_gone: "def f():\n    x = 1\n    del x\n    return x #! E0602\n";
        a_comprehension_keeps_its_variable: "ys = [y for y in range(3)]\nprint(y) #! E0602\n";
        a_name_in_an_f_string: "def f():\n    return f'{nothing} {1:{width}}' #! E0602\n";
        a_name_in_a_nested_function: "def f():\n    a = 1\n    def g():\n        return a + b #! E0602\n    return g\n";
        a_name_in_a_base_class_list: "class K(Missing): #! E0602\n    pass\n";
        a_name_in_an_annotation: "def f(x: Missing): #! E0602\n    return x\n";
        any_branch_binds: "import sys\nif sys.argv:\n    x = 1\nelse:\n    y = 2\nprint(x, y)\n";
        later_names_are_bound_for_functions: "def f():\n    return late\nlate = 1\n";
        a_global_statement_binds_in_the_module: "def f():\n    global made\n    made = 1\ndef g():\n    return made\n";
        a_guarded_builtin_of_python_2: "try:\n    unicode\nexcept NameError:\n    unicode = str\nprint(unicode)\n";
        a_name_tested_by_name_error: "def f():\n    try:\n        return get_ipython()\n    except NameError:\n        return None\n";
        an_unknown_star_import_may_bind_anything: "from nowhere import * #! E0401\nprint(anything)\n";
        a_star_import_brings_public_names: "from other import *\nprint(shown, _hidden) #! E0602\n#- other.py\nshown = 1\n_hidden = 2\n";
        globals_written_by_name: "globals()['made'] = 1\nprint(made)\n";
        globals_read_by_name_bind_nothing: "if 'x' in globals():\n    pass\nprint(made) #! E0602\n";
        builtins_and_module_names: "print(len, __name__, __file__, ValueError, WindowsError, exit)\n";
        names_of_a_class_body: "class K:\n    where = __module__\n    name = __qualname__\n    def f(self):\n        return __class__\n";
        a_walrus_binds_outside_its_comprehension: "print([last := n for n in range(3)], last)\n";
        match_captures_bind: "def f(x):\n    match x:\n        case [a, *rest] if a:\n            return a, rest\n        case {'k': v, **more}:\n            return v, more\n        case int() as n:\n            return n\n";
        lambda_and_except_names: "try:\n    f = lambda a, *b, c=1, **d: (a, b, c, d)\nexcept ValueError as e:\n    print(e)\n";
        type_parameters_are_names: "class Box[T]:\n    item: T\n    def get(self) -> T:\n        return self.item\ndef first[U](xs: list[U]) -> U:\n    return xs[0]\n";
        type_checking_imports_are_names: "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from decimal import Decimal\ndef f(x: Decimal):\n    return x\n";
        text_in_quotes_is_no_name: "def f(x: 'Missing') -> \"Other\":\n    '''missing'''\n    return x # missing\n";
        keyword_names_are_no_uses: "print('a', end='', sep='')\n";
        a_with_target_and_a_loop_target: "with open('f') as (a, b):\n    for c, (d, *e) in b:\n        print(a, c, d, e)\n";
        deletion_in_one_branch_is_not_certain: "def f(x):\n    y = 1\n    if x:\n        del y\n    return y\n";
        nonlocal_names: "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n    return g\n";
    }
}

mod imports {
    use crate::repo::check::tests::cases;
    cases! {
        a_module_that_is_nowhere: "import no_such_module_at_all #! E0401\n";
        a_module_below_a_package: "import pk.missing #! E0401\nfrom pk import missing #! E0611\n#- pk/__init__.py\n";
        a_relative_module: "#- pk/__init__.py\n#- pk/a.py\nfrom .b import x #! E0401\nfrom . import c #! E0611\n";
        a_dotted_name_is_missing_as_a_whole: "import no_such_module_at_all.deeper #! E0401\n";
        from_a_missing_module: "from no_such_module_at_all import x #! E0401\n";
        inside_a_function_too: "def f():\n    import no_such_module_at_all #! E0401\n";
        a_caught_import: "try:\n    import no_such_module_at_all\nexcept ImportError:\n    no_such_module_at_all = None\n";
        a_fallback_after_a_caught_import: "try:\n    import no_such_one\nexcept ImportError:\n    import no_such_two\n";
        an_import_for_type_checkers: "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import no_such_module_at_all\n";
        an_import_for_another_platform: "import sys\nif sys.platform == 'win32':\n    import no_such_module_at_all\n";
        an_import_for_another_version: "import sys\nif sys.version_info < (3,):\n    import no_such_module_at_all\n";
        an_import_that_is_suppressed: "import contextlib\nwith contextlib.suppress(ImportError):\n    import no_such_module_at_all\n";
        the_standard_library: "import os.path, json.decoder, collections.abc, _thread, sys, xml.etree.ElementTree\n";
        a_package_with_its_own_path: "import pk.made\n#- pk/__init__.py\n__path__ = ['elsewhere']\n";
        a_name_that_a_module_does_not_have: "from other import here, gone #! E0611\n#- other.py\nhere = 1\n";
        a_name_of_the_standard_library: "from textwrap import dedent, undent #! E0611\n";
        a_name_of_a_module_written_in_c: "from time import sleep, no_such_name #! E0611\n";
        a_submodule_is_a_name: "from pk import sub\n#- pk/__init__.py\n#- pk/sub.py\n";
        a_name_brought_by_a_star: "from pk import deep\n#- pk/__init__.py\nfrom .inner import *\n#- pk/inner.py\ndeep = 1\n";
        a_module_with_getattr: "from other import anything\n#- other.py\ndef __getattr__(name):\n    return 1\n";
        a_module_that_writes_globals: "from other import anything\n#- other.py\nfor n in 'ab':\n    globals()[n] = 1\n";
        a_module_with_an_unknown_star: "from other import anything\n#- other.py\nfrom nowhere import * #! E0401\n";
        a_module_that_replaces_itself: "from other import anything\n#- other.py\nimport sys\nsys.modules[__name__] = object()\n";
        a_deleted_name_of_a_module: "from other import temp #! E0611\n#- other.py\ntemp = 1\ndel temp\n";
        a_caught_name: "try:\n    from other import gone\nexcept ImportError:\n    gone = None\n#- other.py\nhere = 1\n";
        the_future: "from __future__ import annotations, division\n";
        a_name_bound_in_one_branch: "from other import maybe\n#- other.py\nimport sys\nif sys.argv:\n    maybe = 1\n";
    }
}

mod syntax {
    use crate::repo::check::tests::cases;
    cases! {
        two_assignment_signs: "#- b.py\ny = = 2 #! E0001\n";
        a_missing_colon: "def f() #! E0001\n    return 1\n";
        an_unclosed_bracket_hides_nothing_else: "print(undefined\nx = 1 #! E0001\n";
        a_keyword_as_a_name: "class = 3 #! E0001\n";
        a_print_statement: "print 'hello' #! E0001\n";
        a_stray_else: "else: #! E0001\n    pass\n";
        an_unexpected_indentation: "x = 1\n    y = 2 #! E0001\n";
        a_bad_import: "from import x #! E0001\n";
        nothing_else_is_said_of_a_broken_file: "print(undefined)\nx = ] #! E0001\n";
        new_syntax_is_fine: "type A = int | str\nx: list[int] = [*range(3)]\nmatch x:\n    case [1, *_]:\n        pass\nprint(f'{x!r:>{10}}', f\"{'a' if x else 'b'}\")\nasync def f():\n    async with g(1, 2, c=3) as (a, b):\n        return [i async for i in a if await b]\ndef g(a, /, b, *, c): ...\ntry:\n    pass\nexcept* ValueError:\n    pass\n";
        soft_keywords_are_names: "match = 1\ncase = match\ntype = case\n_ = type\nprint(match, case, type)\n";
        strings_of_all_kinds: "a = rb'\\x' b\"y\"\nb = '''x\n'y' '''\nc = f'''{a}\n{b}'''\nd = 'a' \"b\" f'{c}'\n";
        continued_lines: "x = 1 + \\\n    2\ny = [\n    1,\n\n    2,  # two\n]\n";
        one_line_blocks: "if 1: x = 1; y = 2\nwhile 0: pass\nclass A: x = 1\n";
        numbers_of_all_kinds: "a = [0x1F, 0b1, 0o7, 1_000, 1e5, .5, 1j, 1.e-3]\n";
        a_form_feed_and_tabs: "\x0cx = 1\nif x:\n\ty = 2\n";
    }
}

mod redefinition {
    use crate::repo::check::tests::cases;
    cases! {
        a_function_defined_twice: "def f():\n    return 1\ndef f(): #! E0102\n    return 2\n";
        a_method_defined_twice: "class K:\n    def m(self):\n        return 1\n    def m(self): #! E0102\n        return 2\n";
        a_class_defined_twice: "class K:\n    pass\nclass K: #! E0102\n    pass\n";
        a_function_inside_a_function: "def f():\n    def g():\n        pass\n    def g(): #! E0102\n        pass\n    return g\n";
        a_class_after_a_function: "def f():\n    pass\nclass f: #! E0102\n    pass\n";
        three_times: "def f(): pass\ndef f(): pass #! E0102\ndef f(): pass #! E0102\n";
        an_async_function: "async def f():\n    pass\nasync def f(): #! E0102\n    pass\n";
        inside_one_block: "if True:\n    def f(): pass\n    def f(): pass #! E0102\n";
        branches_exclude_each_other: "import sys\nif sys.argv:\n    def f(): pass\nelse:\n    def f(): pass\n";
        a_fallback: "try:\n    from fast import f\nexcept ImportError:\n    def f(): pass\n";
        a_replacement_below_a_condition: "def f(): pass\nif f() is None:\n    def f(): pass\n";
        a_property_with_a_setter: "class K:\n    @property\n    def x(self): return 1\n    @x.setter\n    def x(self, v): pass\n";
        overloads: "from typing import overload\n@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\ndef f(x): return x\n";
        single_dispatch: "from functools import singledispatch\n@singledispatch\ndef f(x): pass\n@f.register(int)\ndef _(x): pass\n@f.register(str)\ndef _(x): pass\n";
        routes_kept_by_their_decorator: "def route(p):\n    return lambda f: f\n@route('/a')\ndef index(): pass\n@route('/b')\ndef index(): pass\n";
        the_old_one_is_used_first: "def f(): pass\nold = f\ndef f(): return old()\n";
        deleted_in_between: "def f(): pass\nf()\ndel f\ndef f(): pass\n";
        the_same_name_in_two_classes: "class A:\n    def m(self): pass\nclass B:\n    def m(self): pass\n";
    }
}

mod self_argument {
    use crate::repo::check::tests::cases;
    cases! {
        a_method_without_self: "class K:\n    def m(x): #! E0213\n        return x\n";
        a_method_with_two_parameters: "class K:\n    def m(this, x): #! E0213\n        return x\n";
        a_constructor: "class K:\n    def __init__(me): #! E0213\n        pass\n";
        an_async_method: "class K:\n    async def m(x): #! E0213\n        return x\n";
        in_a_nested_class: "class A:\n    class B:\n        def m(x): #! E0213\n            return x\n";
        in_a_subclass: "class A:\n    pass\nclass B(A):\n    def m(x): #! E0213\n        return x\n";
        with_a_positional_only_parameter: "class K:\n    def m(x, /): #! E0213\n        return x\n";
        a_special_method: "class K:\n    def __len__(x): #! E0213\n        return 1\n";
        a_static_method: "class K:\n    @staticmethod\n    def m(x):\n        return x\n";
        a_class_method: "class K:\n    @classmethod\n    def m(cls):\n        return cls\n";
        new_and_the_class_hooks: "class K:\n    def __new__(cls):\n        return super().__new__(cls)\n    def __init_subclass__(cls):\n        pass\n    def __class_getitem__(cls, item):\n        return cls\n";
        a_metaclass: "class Meta(type):\n    def make(cls):\n        return cls()\n    def other(klass_of_it):\n        return 1\n";
        any_decorator_may_pass_other_things: "def deco(f):\n    return f\nclass K:\n    @deco\n    def m(x):\n        return x\n";
        made_static_later: "class K:\n    def m(x):\n        return x\n    m = staticmethod(m)\n";
        a_name_with_an_underscore: "class K:\n    def m(_self, x):\n        return x\n    def n(__self, y):\n        return y\n";
        stars_take_self: "class K:\n    def m(*args, **kw):\n        return args\n";
        a_function_in_a_method: "class K:\n    def m(self):\n        def inner(x):\n            return x\n        return inner\n";
        an_unknown_base_may_be_an_interface: "from nowhere import Interface #! E0401\nclass K(Interface):\n    def m(x):\n        pass\n";
    }
}
