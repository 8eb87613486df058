//! Cases by the kind of fault they guard against. Every case is a small project of our own.
//!
//! # Place
//! Test code. `check` writes the files, asks at the cursor `█`, and compares.

use super::tests::{ask, offers};
use crate::base::Answer;

/// `fixture`: files separated by lines `#- name`; the first may go without (it is `main.py`).
/// `expect`: `+name` must be offered, `-name` must not; `closed`, `open`, `unknown` is the answer.
#[track_caller]
pub(super) fn check(fixture: &str, expect: &str) {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut name = "main.py".to_owned();
    let mut text = String::new();
    for line in fixture.split_inclusive('\n') {
        if let Some(next) = line.strip_prefix("#- ") {
            if !text.is_empty() {
                files.push((std::mem::take(&mut name), std::mem::take(&mut text).into_bytes()));
            }
            name = next.trim_end().to_owned();
        } else {
            text.push_str(line);
        }
    }
    files.push((name, text.into_bytes()));
    let main = files
        .iter()
        .find(|(_, t)| String::from_utf8_lossy(t).contains('█'))
        .map(|(n, _)| n.clone())
        .expect("a file has the cursor");
    let found = ask(&files, &main);
    let mut faults = Vec::new();
    for word in expect.split_whitespace() {
        let ok = match word {
            "closed" => found.answer == Answer::Closed,
            "open" => found.answer == Answer::Open,
            "unknown" => found.answer == Answer::Unknown,
            _ => match (word.strip_prefix('+'), word.strip_prefix('-')) {
                (Some(name), _) => offers(&found, name),
                (_, Some(name)) => !offers(&found, name),
                _ => panic!("expectation {word} begins with neither + nor -"),
            },
        };
        if !ok {
            faults.push(word);
        }
    }
    let names: Vec<&str> =
        found.names.iter().map(|c| &*c.name).filter(|n| !n.starts_with("__")).take(40).collect();
    assert!(
        faults.is_empty(),
        "{faults:?} fail: {:?} ({:?}) {names:?}",
        found.answer,
        found.reason
    );
}

macro_rules! cases {
    ($($name:ident: $fixture:expr, $expect:expr;)*) => {
        $(#[test] fn $name() { check($fixture, $expect); })*
    };
}

mod real_code;

mod classes {
    use super::check;
    cases! {
        self_sees_attributes_of_every_method:
            "class Kiln:\n    def load(self):\n        self.shelf = []\n    def fire(self):\n        x = self.█\n",
            "+shelf +load +fire closed";
        a_place_where_an_attribute_may_be_assigned_is_open:
            "class Kiln:\n    def load(self):\n        self.█\n", "+load open";
        a_store_in_a_tuple_target_is_open:
            "class Kiln:\n    def load(self):\n        self.a, self.█\n", "+load open";
        an_instance_made_by_its_class_is_closed:
            "class Kiln:\n    heat = 3\nk = Kiln()\nprint(k.█", "+heat closed -glow";
        inherited_names_come_across_files:
            "from base import Oven\nclass Kiln(Oven):\n    def go(self):\n        return self.█\n#- base.py\nclass Oven:\n    def __init__(self):\n        self.temp = 3\n    def bake(self): ...\n",
            "+temp +bake +go closed";
        the_diamond_resolves_breadth_before_depth:
            "class Root:\n    def who(self) -> int: ...\nclass L(Root): ...\nclass R(Root):\n    def who(self) -> str: ...\nclass D(L, R): ...\nD().who().█", "+upper -bit_length";
        an_inconsistent_order_still_has_every_name:
            "class A: \n    a = 1\nclass B(A):\n    b = 2\nclass C(A, B):\n    c = 3\nC().█", "+a +b +c";
        an_unknown_base_is_open:
            "from nowhere import Thing\nclass K(Thing):\n    def go(self):\n        return self.█\n", "+go open";
        getattr_opens_the_class:
            "class P:\n    known = 1\n    def __getattr__(self, name):\n        return 3\nprint(P().█", "+known open";
        a_forwarding_proxy_offers_its_target:
            "class Real:\n    def pull(self): ...\nclass Proxy:\n    def __init__(self):\n        self._it = Real()\n    def __getattr__(self, n):\n        return getattr(self._it, n)\nprint(Proxy().█", "+pull open";
        setattr_with_a_literal_is_an_attribute:
            "class Box:\n    def fill(self):\n        setattr(self, 'mass', 1)\nprint(Box().█", "+mass closed";
        setattr_with_a_variable_opens_the_class:
            "class Box:\n    def fill(self, k):\n        setattr(self, k, 1)\nprint(Box().█", "+fill open";
        dict_update_opens_the_class:
            "class Box:\n    def fill(self, kw):\n        self.__dict__.update(kw)\nprint(Box().█", "+fill open";
        object_setattr_with_a_literal_is_an_attribute:
            "class Box:\n    def fill(self):\n        object.__setattr__(self, 'mass', 1)\nprint(Box().█", "+mass closed";
        slots_are_attributes:
            "class Cell:\n    __slots__ = 'row', 'col'\ndef f(c: Cell):\n    return c.█\n", "+row +col closed";
        slots_are_inherited:
            "class Cell:\n    __slots__ = ['row']\nclass Sub(Cell):\n    __slots__ = ('col',)\ndef f(c: Sub):\n    return c.█\n", "+row +col closed";
        computed_slots_open_the_class:
            "NAMES = load()\nclass Cell:\n    __slots__ = NAMES\n    a = 1\ndef f(c: Cell):\n    return c.█\n", "open";
        metaclass_methods_are_on_the_class:
            "class Meta(type):\n    def make(cls): ...\nclass W(metaclass=Meta):\n    def draw(self): ...\nprint(W.█", "+make +draw closed";
        metaclass_methods_are_not_on_instances:
            "class Meta(type):\n    def make(cls): ...\nclass W(metaclass=Meta):\n    def draw(self): ...\nprint(W().█", "-make +draw";
        init_subclass_attributes_are_on_the_class:
            "class Plug:\n    def __init_subclass__(cls, **kw):\n        cls.registry = []\nclass Own(Plug): ...\nprint(Own.█", "+registry";
        a_classmethod_binds_the_class:
            "class K:\n    size = 1\n    @classmethod\n    def make(cls):\n        return cls().█\n", "+size +make";
        a_staticmethod_has_no_self:
            "class K:\n    size = 1\n    @staticmethod\n    def make(x):\n        return x.█\n", "unknown";
        super_lists_the_bases:
            "class A:\n    def go(self): ...\nclass B(A):\n    def run(self):\n        super().█", "+go -run";
        super_sees_siblings:
            "class A:\n    def go(self): ...\nclass M:\n    def extra(self): ...\nclass B(A, M):\n    def run(self):\n        super().█", "+go +extra";
        private_names_are_offered_inside:
            "class S:\n    def __init__(self):\n        self.__pin = 1\n    def f(self):\n        return self.█\n", "+__pin";
        private_names_are_not_offered_outside:
            "class S:\n    def __init__(self):\n        self.__pin = 1\n        self.open = 2\nS().█", "-__pin +open";
        private_names_of_a_base_are_not_offered:
            "class S:\n    def __init__(self):\n        self.__pin = 1\nclass T(S):\n    def f(self):\n        return self.█\n", "-__pin";
        subclass_names_are_offered_on_self_of_a_base:
            "class Base:\n    def run(self):\n        return self.█\nclass Leaf(Base):\n    def step(self): ...\n", "+step +run";
        a_mixin_sees_what_it_is_mixed_with:
            "class Mixin:\n    def go(self):\n        return self.█\nclass Core:\n    def core(self): ...\nclass Whole(Mixin, Core): ...\n", "+core +go";
        an_attribute_set_from_outside_is_offered:
            "class Job:\n    def run(self): ...\ndef prepare():\n    job = Job()\n    job.owner = 'me'\n    return job\nprint(Job().█", "+owner +run";
        attributes_of_a_class_itself:
            "class K:\n    a = 1\n    def m(self):\n        self.b = 2\nprint(K.█", "+a +m -b closed";
        annotated_only_names_are_on_instances:
            "class K:\n    a: int\nprint(K().█", "+a";
        a_property_gives_its_result:
            "class Inner:\n    def spin(self): ...\nclass Outer:\n    @property\n    def core(self):\n        return Inner()\nOuter().core.█", "+spin -fget";
        a_property_with_a_setter_is_still_its_result:
            "class Inner:\n    def spin(self): ...\nclass Outer:\n    @property\n    def core(self):\n        return Inner()\n    @core.setter\n    def core(self, v): ...\nOuter().core.█", "+spin -fset";
        a_descriptor_gives_what_get_returns:
            "class Inner:\n    def spin(self): ...\nclass D:\n    def __get__(self, obj, owner):\n        return Inner()\nclass Outer:\n    core = D()\nOuter().core.█", "+spin";
        a_reassigned_class_attribute_has_its_last_value:
            "class A:\n    d = 'p q'\n    d = set(d.split())\nA.d.█", "+add -upper";
        a_class_that_inherits_from_itself_ends:
            "class A(B):\n    a = 1\nclass B(A):\n    b = 1\nA().█", "+a";
        calling_an_instance_uses_call:
            "class Z:\n    def zap(self): ...\nclass F:\n    def __call__(self):\n        return Z()\nF()().█", "+zap";
        new_that_returns_another_class:
            "class Z:\n    def zap(self): ...\nclass F:\n    def __new__(cls) -> Z: ...\nF().█", "+zap";
        self_class_is_the_class:
            "class Z:\n    @classmethod\n    def zap(cls): ...\n    def f(self):\n        return self.__class__.█\n", "+zap";
        type_of_a_value_is_its_class:
            "class Z:\n    @classmethod\n    def zap(cls): ...\ndef f(z: Z):\n    return type(z).█\n", "+zap";
        nested_classes_are_reached:
            "class A:\n    class B:\n        def zap(self): ...\nA.B().█", "+zap";
        dunder_names_that_exist_are_in_a_closed_answer:
            "class A: ...\nprint(A.█", "+__name__ +__mro__ +__doc__ closed";
        an_attribute_annotated_in_init:
            "class Z:\n    def zap(self): ...\nclass A:\n    def __init__(self, z):\n        self.z: Z = z\n    def f(self):\n        return self.z.█\n", "+zap closed";
        an_attribute_from_an_annotated_parameter:
            "class Z:\n    def zap(self): ...\nclass A:\n    def __init__(self, z: Z):\n        self.z = z\n    def f(self):\n        return self.z.█\n", "+zap closed";
        an_attribute_from_an_unannotated_parameter_is_unknown:
            "class A:\n    def __init__(self, z):\n        self.z = z\n    def f(self):\n        return self.z.█\n", "unknown";
        a_none_default_is_joined_with_later_values:
            "class Z:\n    def zap(self): ...\nclass A:\n    z = None\n    def set(self):\n        self.z = Z()\n    def f(self):\n        return self.z.█\n", "+zap";
        only_none_is_not_a_wall:
            "class A:\n    z = None\n    def f(self):\n        return self.z.█\n", "open";
        methods_of_the_class_further_down_are_offered:
            "class A:\n    def f(self):\n        return self.█\n    def later(self): ...\n", "+later";
        a_class_decorated_by_an_identity:
            "def keep(k):\n    return k\n@keep\nclass Bin:\n    size = 1\nprint(Bin().█", "+size";
        a_class_decorated_by_the_unknown_is_open:
            "from nowhere import thing\n@thing\nclass Bin:\n    size = 1\nprint(Bin().█", "+size open";
        total_ordering_keeps_the_class:
            "import functools\n@functools.total_ordering\nclass Bin:\n    size = 1\nprint(Bin().█", "+size closed";
        hasattr_opens_what_it_looks_at:
            "class K:\n    a = 1\ndef f(k: K):\n    if hasattr(k, 'extra'):\n        return k.█\n", "+a open";
    }
}

mod fields {
    use super::check;
    cases! {
        namedtuple_from_a_string: "from collections import namedtuple\nP = namedtuple('P', 'mass, label')\nP(1, 2).█", "+mass +label +_replace +count";
        namedtuple_from_a_list: "import collections\nP = collections.namedtuple('P', ['mass', 'label'])\nP(1, 2).█", "+mass +label +_asdict";
        namedtuple_renames_bad_fields: "from collections import namedtuple\nP = namedtuple('P', 'class ok', rename=True)\nP(1, 2).█", "+_0 +ok -class";
        namedtuple_subclass: "from collections import namedtuple\nclass P(namedtuple('P', 'mass label')):\n    def both(self): ...\nP(1, 2).█", "+mass +both";
        typed_namedtuple: "from typing import NamedTuple\nclass P(NamedTuple):\n    mass: int\n    label: str = ''\nP(1).█", "+mass +label +_fields";
        typed_namedtuple_field_types: "from typing import NamedTuple\nclass P(NamedTuple):\n    mass: int\n    label: str\nP(1, '').label.█", "+upper -bit_length";
        namedtuple_items_unpack: "from typing import NamedTuple\nclass P(NamedTuple):\n    mass: int\n    label: str\ndef f(p: P):\n    a, b = p\n    return b.█\n", "+upper";
        dataclass_fields: "from dataclasses import dataclass, field\n@dataclass\nclass J:\n    pri: int\n    tags: list = field(default_factory=list)\nJ(1).█", "+pri +tags";
        dataclass_field_types: "from dataclasses import dataclass\n@dataclass\nclass J:\n    pri: str\nJ('').pri.█", "+upper";
        dataclass_inherits: "import dataclasses\n@dataclasses.dataclass\nclass A:\n    kappa: int\n@dataclasses.dataclass\nclass B(A):\n    lam: int\nB(1, 2).█", "+kappa +lam";
        dataclass_keywords: "from dataclasses import dataclass, field\n@dataclass\nclass J:\n    pri: int\n    hid: int = field(init=False)\n    tag: str = ''\nJ(█", "+pri= +tag= -hid=";
        dataclass_keywords_after_positional: "from dataclasses import dataclass\n@dataclass\nclass J:\n    pri: int\n    tag: str = ''\nJ(1, █", "-pri= +tag=";
        attrs_keywords_drop_underscores: "import attr\n@attr.s\nclass J:\n    _pri = attr.ib()\n    tag = attr.ib(default=1)\nJ(█", "+pri= +tag=";
        enum_members_on_the_class: "import enum\nclass G(enum.Enum):\n    LOW = 1\n    HIGH = 2\nG.█", "+LOW +HIGH";
        enum_member_is_not_its_value: "from enum import Enum\nclass G(Enum):\n    LOW = 1\nG.LOW.█", "+name +value -bit_length";
        enum_methods: "from enum import Enum\nclass G(Enum):\n    LOW = 1\n    def heat(self): ...\nG.LOW.█", "+heat";
        iterating_an_enum: "from enum import Enum\nclass G(Enum):\n    LOW = 1\n    def heat(self): ...\nfor g in G:\n    g.█", "+heat";
        typed_dict_keys_are_not_attributes: "from typing import TypedDict\nclass TD(TypedDict):\n    alpha: int\ndef f(d: TD):\n    d.█", "+keys -alpha";
        new_type_is_its_base: "from typing import NewType\nUid = NewType('Uid', str)\nUid('').█", "+upper";
    }
}

mod names {
    use super::check;
    cases! {
        locals_and_parameters: "def f(width, *rest, depth=1, **more):\n    height = 2\n    return █", "+width +rest +depth +more +height";
        a_prefix_filters_exactly: "def f(width, Wide):\n    return wi█", "+width -Wide";
        builtins_are_names: "x = le█", "+len";
        later_names_of_a_module_are_seen_in_functions: "def f():\n    return late█\nlater = 1\n", "+later";
        later_names_are_not_seen_at_module_level: "x = late█\nlater = 1\n", "-later";
        deleted_names_are_gone: "tmp_a = 1\ntmp_b = 2\ndel tmp_a\nx = tmp█", "-tmp_a +tmp_b";
        comprehension_names_do_not_leak: "xs = [inner_q for inner_q in range(3)]\ny = inner█", "-inner_q";
        comprehension_names_are_seen_in_conditions: "xs = [1 for inner_q in range(3) if inner█", "+inner_q";
        class_names_are_not_seen_in_methods: "class K:\n    limit_k = 3\n    def f(self):\n        return limit█", "-limit_k";
        class_names_are_seen_in_the_class_body: "class K:\n    limit_k = 3\n    other = limit█", "+limit_k";
        lambda_parameters: "f = lambda alpha, beta: al█", "+alpha";
        walrus_leaks_from_comprehensions: "def f(xs):\n    ys = [last_x := x for x in xs]\n    return last█", "+last_x";
        global_names: "def f():\n    global conn_g\n    conn_g = 1\ndef g():\n    return conn█", "+conn_g";
        nonlocal_names: "def f():\n    count_n = 0\n    def g():\n        nonlocal count_n\n        return count█", "+count_n";
        exception_names: "def f():\n    try:\n        pass\n    except ValueError as err_e:\n        return err█", "+err_e";
        with_and_for_names: "def f(xs):\n    for item_i, other_o in xs:\n        with item_i as handle_h:\n            return (item_i, hand█", "+handle_h";
        match_captures: "def f(v):\n    match v:\n        case {'k': found_v, **rest_r}:\n            return found█", "+found_v";
        star_import_respects_all: "from pk import *\nx = sho█\n#- pk.py\n__all__ = ['shown']\ndef shown(): ...\ndef shoed(): ...\n", "+shown -shoed";
        star_import_skips_underscores: "from pk import *\nx = _pu█\n#- pk.py\n_pub = 1\n", "-_pub";
        star_import_with_extended_all: "from pk import *\nx = sho█\n#- pk.py\n__all__ = ['a']\n__all__ += ['shown']\n__all__.extend(['shone'])\na = shown = shone = shoed = 1\n", "+shown +shone -shoed";
        star_import_with_all_of_another_module: "from pk import *\nx = sho█\n#- pk/__init__.py\nfrom . import sub\nfrom .sub import *\n__all__ = sub.__all__ + ['own']\nown = 1\n#- pk/sub.py\n__all__ = ['shown']\nshown = shoed = 1\n", "+shown -shoed";
        identifiers_are_normalised: "class Z:\n    ﬁeld = 1\nprint(Z.█", "+field -ﬁeld";
        keyword_names: "def mk(width, *, depth=1): ...\nmk(█", "+width= +depth=";
        keyword_names_that_are_passed_are_left_out: "def mk(width, depth=1): ...\nmk(width=2, █", "-width= +depth=";
        keyword_names_of_a_constructor: "class K:\n    def __init__(self, width, /, depth): ...\nK(█", "-width= +depth=";
        keyword_names_of_a_method: "class K:\n    def go(self, speed): ...\nK().go(█", "+speed= -self=";
        keyword_names_through_partial: "import functools\ndef mk(width, depth): ...\np = functools.partial(mk, 1)\np(█", "+depth=";
        no_keyword_names_inside_a_nested_list: "def mk(width): ...\nmk([█", "-width=";
        nothing_in_a_comment: "x = 1 # see os.█", "unknown";
        nothing_in_a_string: "x = 'os.█'", "unknown";
        nothing_in_a_docstring: "def f():\n    \"\"\"see os.█", "unknown";
        nothing_in_a_number: "x = 3.█", "unknown";
        nothing_in_an_exponent: "x = 1.e█", "unknown";
        fields_of_f_strings_complete: "class Z:\n    zap = 1\nz = Z()\nx = f'{z.█", "+zap";
        fields_of_f_strings_complete_with_text_after: "class Z:\n    zap = 1\nz = Z()\nx = f'{z.█} and {z}'\n", "+zap";
        text_of_f_strings_does_not: "z = 1\nx = f'z.█ {z}'\n", "unknown";
        a_new_function_name: "def █", "unknown";
        an_alias: "import os as █", "unknown";
    }
}

mod modules {
    use super::check;
    cases! {
        module_members: "import lib\nlib.█\n#- lib.py\ndef puff(): ...\nx = 1\n", "+puff +x +__name__ closed";
        a_module_getattr_opens_it: "import lib\nlib.█\n#- lib.py\ndef __getattr__(n): ...\nx = 1\n", "+x open";
        globals_update_opens_it: "import lib\nlib.█\n#- lib.py\nglobals().update(a=1)\nx = 1\n", "+x open";
        dotted_import_binds_the_top: "import pk.sub\npk.█\n#- pk/__init__.py\ntop = 1\n#- pk/sub.py\ndeep = 1\n", "+top +sub";
        dotted_import_reaches_the_leaf: "import pk.sub\npk.sub.█\n#- pk/__init__.py\n#- pk/sub.py\ndeep = 1\n", "+deep";
        a_submodule_nobody_imports_is_not_there: "import pk\npk.█\n#- pk/__init__.py\ntop = 1\n#- pk/sub.py\ndeep = 1\n", "+top -sub";
        a_name_hides_the_submodule: "from pk import foo\nfoo.█\n#- pk/__init__.py\nfrom .foo import foo\n#- pk/foo.py\nclass F:\n    def run(self): ...\nfoo = F()\nother = 1\n", "+run -other";
        from_package_import_submodule: "from pk import sub\nsub.█\n#- pk/__init__.py\n#- pk/sub.py\ndeep = 1\n", "+deep";
        from_package_with_getattr_import_submodule: "from pk import sub\nsub.█\n#- pk/__init__.py\ndef __getattr__(n): ...\n#- pk/sub.py\ndeep = 1\n", "+deep closed";
        relative_imports: "#- pk/__init__.py\n#- pk/a.py\nclass A:\n    def ok(self): ...\n#- pk/b.py\nfrom .a import A\nA().█", "+ok";
        parent_relative_imports: "#- pk/__init__.py\n#- pk/a.py\nclass A:\n    def ok(self): ...\n#- pk/in/__init__.py\n#- pk/in/b.py\nfrom ..a import A\nA().█", "+ok";
        relative_import_of_a_sibling_module: "#- pk/__init__.py\n#- pk/a.py\nok = 1\n#- pk/b.py\nfrom . import a\na.█", "+ok";
        a_module_named_like_its_package: "#- b/__init__.py\n#- b/c.py\nclass C:\n    def ok(self): ...\n#- b/b.py\nfrom b.c import C\nC().█", "+ok";
        an_absolute_import_is_not_the_sibling: "#- pk/__init__.py\n#- pk/json.py\nimport json\njson.█", "+dumps";
        re_exports_chain: "from pk import X\nX().█\n#- pk/__init__.py\nfrom .a import X as X\n#- pk/a.py\nfrom .b import X as X\n#- pk/b.py\nclass X:\n    def deep(self): ...\n", "+deep";
        a_cycle_of_re_exports_ends: "from a import x\nx.█\n#- a.py\nfrom b import x\n#- b.py\nfrom a import x\n", "unknown";
        modules_that_import_each_other: "from a import A\nA().b().█\n#- a.py\nfrom b import B\nclass A:\n    def b(self):\n        return B()\n#- b.py\nimport a\nclass B:\n    def back(self) -> 'a.A': ...\n", "+back";
        try_except_import_is_a_union: "try:\n    import fast as e\nexcept ImportError:\n    import slow as e\ne.█\n#- fast.py\nf_only = 1\n#- slow.py\ns_only = 1\n", "+f_only +s_only";
        type_checking_imports_count: "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lib import Z\ndef f(z: 'Z'):\n    z.█\n#- lib.py\nclass Z:\n    def zap(self): ...\n", "+zap";
        conditional_definitions_are_a_union: "import sys\nif sys.platform == 'zz':\n    class Z:\n        def a(self): ...\nelse:\n    class Z:\n        def b(self): ...\nZ().█", "+a +b";
        a_stub_beside_its_source_wins: "from lib import Lazy\nLazy().█\n#- lib/__init__.py\ndef __getattr__(n): ...\n#- lib/__init__.pyi\nclass Lazy:\n    def load(self) -> int: ...\n", "+load";
        what_a_stub_leaves_out_is_found_in_the_source: "import lib\nlib.K().█\n#- lib.pyi\nclass K:\n    def pub(self) -> int: ...\n#- lib.py\nclass K:\n    def pub(self): ...\n    def _own(self): ...\n", "+pub +_own";
        a_stub_package_serves_its_package: "from lib import K\nK().█\n#- lib-stubs/__init__.pyi\nclass K:\n    def pub(self) -> int: ...\n", "+pub";
        import_offers_modules: "import pk.█\n#- pk/__init__.py\n#- pk/sub.py\nx = 1\n", "+sub closed";
        from_import_offers_names_and_modules: "from pk import █\n#- pk/__init__.py\ntop = 1\n#- pk/sub.py\nx = 1\n", "+top +sub closed";
        from_dot_import_offers_siblings: "#- pk/__init__.py\ntop = 1\n#- pk/a.py\nx = 1\n#- pk/b.py\nfrom . import █", "+a +top";
        from_module_offers_submodules: "from pk.█\n#- pk/__init__.py\n#- pk/sub.py\nx = 1\n", "+sub";
        import_offers_the_standard_library: "import js█", "+json";
        a_namespace_package_has_its_modules: "import ns.a, ns.b\nns.█\n#- ns/a.py\nx = 1\n#- ns/b.py\ny = 1\n", "+a +b";
        an_unresolved_import_is_unknown: "import nowhere\nnowhere.█", "unknown";
        an_unresolved_star_import_opens_the_module: "import lib\nlib.█\n#- lib.py\nfrom nowhere import *\nx = 1\n", "+x open";
        os_path_is_a_module: "import os\nos.path.█", "+join +dirname";
        a_syntax_error_hides_one_statement: "import lib\nlib.█\n#- lib.py\ndef a(): ...\nx = = 3\ndef b(: ...\ndef c(): ...\n", "+a +c";
        a_setuptools_src_layout: "#- pyproject.toml\n[project]\nname = 'x'\n#- src/pk/__init__.py\n#- src/pk/a.py\ndeep = 1\n#- tests/t.py\nimport pk.a\npk.a.█", "+deep";
    }
}

mod values {
    use super::check;
    const Z: &str = "class Z:\n    def zap(self): ...\n    def twin(self):\n        return self\n";
    fn check_z(text: &str, expect: &str) {
        check(&format!("{Z}{text}"), expect);
    }
    macro_rules! z_cases {
        ($($name:ident: $text:expr, $expect:expr;)*) => {
            $(#[test] fn $name() { check_z($text, $expect); })*
        };
    }
    z_cases! {
        an_unknown_parameter_is_unknown: "def f(q):\n    q.█\n", "unknown";
        an_undefined_name_is_unknown: "undefined_name.█\n", "unknown";
        an_optional_has_its_names: "from typing import Optional\ndef f(z: Optional[Z]):\n    return z.█\n", "+zap";
        a_union_has_both: "class Y:\n    def yip(self): ...\ndef f(z: 'Z | Y | None'):\n    return z.█\n", "+zap +yip";
        isinstance_narrows: "def f(q):\n    if isinstance(q, Z):\n        return q.█\n", "+zap closed";
        isinstance_narrows_below_an_early_return: "def f(q):\n    if not isinstance(q, Z):\n        return\n    return q.█\n", "+zap";
        assert_isinstance_narrows: "def f(q):\n    assert isinstance(q, Z)\n    return q.█\n", "+zap";
        isinstance_of_a_tuple: "class Y:\n    def yip(self): ...\ndef f(q):\n    if isinstance(q, (Z, Y)):\n        return q.█\n", "+zap +yip";
        isinstance_and_more: "def f(q):\n    if isinstance(q, Z) and q.█\n", "+zap";
        isinstance_excludes_in_the_else: "class Y:\n    def yip(self): ...\ndef f(q: Z | Y):\n    if isinstance(q, Y):\n        pass\n    else:\n        return q.█\n", "+zap -yip";
        isinstance_on_an_attribute: "class H:\n    def __init__(self, v):\n        self.v = v\n    def f(self):\n        if isinstance(self.v, Z):\n            return self.v.█\n", "+zap";
        narrowing_ends_with_its_block: "def f(q):\n    if isinstance(q, Z):\n        pass\n    return q.█\n", "unknown";
        reassignment_replaces: "def f(q):\n    q = Z()\n    return q.█\n", "+zap closed";
        branches_join: "class Y:\n    def yip(self): ...\ndef f(c):\n    if c:\n        q = Z()\n    else:\n        q = Y()\n    return q.█\n", "+zap +yip";
        a_branch_that_returns_does_not_join: "class Y:\n    def yip(self): ...\ndef f(c):\n    q = Z()\n    if c:\n        q = Y()\n        return q\n    return q.█\n", "+zap -yip";
        a_loop_joins_its_end: "class Y:\n    def yip(self): ...\ndef f(xs):\n    q = Z()\n    for x in xs:\n        q.█\n        q = Y()\n", "+zap +yip";
        try_and_handler_join: "class Y:\n    def yip(self): ...\ndef f():\n    try:\n        q = Z()\n    except ValueError:\n        q = Y()\n    return q.█\n", "+zap +yip";
        methods_that_return_self_chain: "Z().twin().twin().█", "+zap";
        list_literals_have_elements: "[Z(), Z()][0].█", "+zap";
        list_annotations_have_elements: "def f(zs: list[Z]):\n    for z in zs:\n        z.█\n", "+zap";
        list_methods_are_closed: "def f(zs: list[Z]):\n    return zs.█\n", "+append closed";
        dict_values_items_and_get: "def f(d: dict[str, Z]):\n    for k, v in d.items():\n        v.█\n", "+zap";
        dict_subscripts: "def f(d: dict[str, Z]):\n    d['a'].█\n", "+zap";
        dict_get_may_be_none: "def f(d: dict[str, Z]):\n    d.get('a').█\n", "+zap";
        dict_literals: "d = {'a': Z()}\nd['a'].█", "+zap";
        tuples_unpack: "a, b = Z(), 1\na.█", "+zap -bit_length";
        tuples_unpack_nested: "(a, b), c = (Z(), 1), 2\na.█", "+zap";
        star_targets_are_lists: "a, *b = 1, 2, 3\nb.█", "+append";
        tuple_annotations: "def f(t: tuple[int, Z]):\n    t[1].█\n", "+zap -bit_length";
        comprehensions_have_elements: "[z for z in [Z()]][0].█", "+zap";
        comprehension_variables: "[1 for z in [Z()] if z.█", "+zap";
        generator_expressions: "next(z for z in [Z()]).█", "+zap";
        dict_comprehensions: "{k: Z() for k in 'ab'}['a'].█", "+zap";
        lambdas_return: "(lambda: Z())().█", "+zap";
        conditional_expressions: "(Z() if x else None).█", "+zap";
        or_expressions: "def f(z: Z | None):\n    (z or Z()).█\n", "+zap";
        walrus_values: "if (z := Z()):\n    z.█", "+zap";
        await_gives_the_result: "async def mk():\n    return Z()\nasync def main():\n    z = await mk()\n    z.█", "+zap";
        async_for_gives_items: "async def gen():\n    yield Z()\nasync def main():\n    async for z in gen():\n        z.█", "+zap";
        generators_yield: "def gen():\n    yield Z()\nfor z in gen():\n    z.█", "+zap";
        yield_from_passes_on: "def gen():\n    yield from [Z()]\nfor z in gen():\n    z.█", "+zap";
        with_enters: "class C:\n    def __enter__(self):\n        return Z()\n    def __exit__(self, *a): ...\nwith C() as z:\n    z.█", "+zap";
        contextmanager_functions_enter: "from contextlib import contextmanager\n@contextmanager\ndef cm():\n    yield Z()\nwith cm() as z:\n    z.█", "+zap";
        iterators_by_getitem: "class S:\n    def __getitem__(self, i):\n        return Z()\nfor z in S():\n    z.█", "+zap";
        iterators_by_next: "class S:\n    def __iter__(self):\n        return self\n    def __next__(self):\n        return Z()\nfor z in S():\n    z.█", "+zap";
        operators_use_their_methods: "class V:\n    def __add__(self, o):\n        return Z()\n(V() + 1).█", "+zap";
        reflected_operators: "class V:\n    def __radd__(self, o):\n        return Z()\n(1 + V()).█", "+zap";
        string_formatting_is_a_string: "('%s' % 1).█", "+upper";
        numbers_add_up: "(1 + 2).█", "+bit_length";
        division_is_a_float: "(1 / 2).█", "+hex -bit_length";
        comparisons_are_booleans: "(1 < 2).█", "+bit_length";
        f_strings_are_strings: "f'{1}'.█", "+upper closed";
        bytes_are_bytes: "b'x'.█", "+decode -encode";
        undeclared_returns_are_inferred: "def mk():\n    return Z()\nmk().█", "+zap closed";
        parameters_flow_through_calls: "def same(v):\n    return v\nsame(Z()).█", "+zap";
        type_variables_flow_through_calls: "from typing import TypeVar\nT = TypeVar('T')\ndef same(v: T) -> T: ...\nsame(Z()).█", "+zap";
        type_parameters_flow_through_calls: "def first[T](v: list[T]) -> T: ...\nfirst([Z()]).█", "+zap";
        generic_classes_keep_their_argument: "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Box(Generic[T]):\n    def __init__(self, v: T): ...\n    def get(self) -> T: ...\nBox(Z()).get().█", "+zap";
        generic_annotations: "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Box(Generic[T]):\n    def get(self) -> T: ...\ndef f(b: Box[Z]):\n    b.get().█", "+zap";
        generic_bases_pass_arguments: "class Zs(list[Z]): ...\nZs()[0].█", "+zap";
        type_of_a_class_makes_instances: "from typing import Type\ndef f(k: Type[Z]):\n    k().█", "+zap";
        callables_return: "from typing import Callable\ndef f(mk: Callable[[], Z]):\n    mk().█", "+zap";
        self_type_is_the_class: "from typing import Self\nclass W(Z):\n    def me(self) -> Self: ...\n    def wop(self): ...\nW().me().█", "+wop +zap";
        literal_types: "from typing import Literal\ndef f(m: Literal['a', 'b']):\n    m.█", "+upper";
        annotated_types: "from typing import Annotated\ndef f(m: Annotated[Z, 1]):\n    m.█", "+zap";
        cast_is_believed: "from typing import cast\ncast(Z, x).█", "+zap";
        cast_with_a_string: "from typing import cast\ncast('Z', x).█", "+zap";
        type_aliases: "from typing import Union\nAlias = Union[Z, None]\ndef f(a: Alias):\n    a.█", "+zap";
        type_statements: "type Alias = Z | None\ndef f(a: Alias):\n    a.█", "+zap";
        getattr_with_a_literal: "class H:\n    z = Z()\ngetattr(H(), 'z').█", "+zap";
        wraps_keeps_the_function: "import functools\ndef deco(fn):\n    @functools.wraps(fn)\n    def inner(*a, **k):\n        return fn(*a, **k)\n    return inner\n@deco\ndef mk():\n    return Z()\nmk().█", "+zap";
        an_identity_decorator: "def reg(fn):\n    return fn\nclass B:\n    @reg\n    def __init__(self):\n        self.depth = 1\nB().█", "+depth";
        lru_cache_keeps_the_result: "import functools\n@functools.lru_cache(maxsize=None)\ndef mk():\n    return Z()\nmk().█", "+zap";
        cached_property_gives_its_result: "import functools\nclass O:\n    @functools.cached_property\n    def core(self):\n        return Z()\nO().core.█", "+zap";
        partial_returns_what_it_calls: "import functools\ndef mk(a, b):\n    return Z()\nfunctools.partial(mk, 1)().█", "+zap";
        singledispatch_functions: "import functools\n@functools.singledispatch\ndef f(a): ...\nf.█", "+register +dispatch";
        copies_are_the_same: "import copy\ncopy.deepcopy(Z()).█", "+zap";
        sorted_keeps_elements: "sorted([Z()])[0].█", "+zap";
        enumerate_and_zip: "for i, z in enumerate([Z()]):\n    z.█", "+zap";
        zip_pairs: "for a, z in zip([1], [Z()]):\n    z.█", "+zap -bit_length";
        max_of_elements: "max([Z()]).█", "+zap";
        set_elements: "for z in {Z()}:\n    z.█", "+zap";
        class_patterns: "def f(v):\n    match v:\n        case Z() as z:\n            z.█", "+zap";
        class_patterns_narrow_the_subject: "def f(v):\n    match v:\n        case Z():\n            v.█", "+zap";
        attribute_patterns: "class P:\n    def __init__(self):\n        self.z = Z()\ndef f(v):\n    match v:\n        case P(z=got):\n            got.█", "+zap";
        a_group_of_exceptions_is_not_the_exception: "class E(Exception):\n    def zip(self): ...\ntry:\n    pass\nexcept* E as e:\n    e.█", "unknown";
        exceptions_by_class: "class E(Exception):\n    def zip(self): ...\ntry:\n    pass\nexcept E as e:\n    e.█", "+zip +args";
        exceptions_by_tuple: "class E(Exception):\n    def zip(self): ...\ntry:\n    pass\nexcept (E, ValueError) as e:\n    e.█", "+zip +args";
        global_assigned_in_a_function: "conn = None\ndef init():\n    global conn\n    conn = Z()\ndef use():\n    return conn.█", "+zap";
        recursion_ends: "def walk(n):\n    if n:\n        return walk(n - 1)\n    return Z()\nwalk(3).█", "+zap closed";
        mutual_recursion_ends: "def a(n):\n    return b(n)\ndef b(n):\n    return a(n) if n else Z()\na(1).█", "+zap";
        a_comprehension_over_itself_ends: "class W:\n    def walk(self, k): ...\n    def all(self, ks):\n        for k in [self.walk(k) for k in ks]:\n            k.█\n", "";
        a_linked_list_walk_is_closed: "class N:\n    def __init__(self):\n        self.next: 'N' = self\n    def end(self):\n        n = self\n        while n.next:\n            n = n.next\n        return n.█\n", "+next +end";
        functions_are_open: "def f(): ...\nprint(f.█", "+__name__ open";
    }
}

mod layout {
    use super::check;
    cases! {
        an_unclosed_bracket_above: "class Z:\n    def zap(self): ...\nprint((1\nz = Z()\nz.█", "+zap";
        an_unclosed_bracket_above_in_a_function: "class Z:\n    def zap(self): ...\ndef f():\n    print((1\n    z = Z()\n    return z.█\ndef g(): ...\n", "+zap";
        an_empty_block_above: "class Z:\n    def zap(self): ...\ndef h():\n\nz = Z()\nz.█", "+zap";
        a_definition_right_below: "class Z:\n    def zap(self): ...\ndef f(z: Z):\n    z.█\ndef g(): ...\n", "+zap";
        a_return_on_the_next_line: "class Z:\n    def zap(self): ...\ndef f(z: Z):\n    z.█\n    return z\n", "+zap";
        an_unterminated_string_below: "class Z:\n    def zap(self): ...\nz = Z()\nz.█\ns = '''half\n", "+zap";
        crlf: "class Z:\r\n    def zap(self): ...\r\nz = Z()\r\nz.█\r\n", "+zap";
        lone_cr: "class Z:\r    def zap(self): ...\rz = Z()\rz.█\r", "+zap";
        form_feed: "class Z:\n\x0c    def zap(self): ...\nz = Z()\nz.█", "+zap";
        tabs: "class Z:\n\tdef zap(self): ...\nz = Z()\nz.█", "+zap";
        backslash_continuation: "class Z:\n    def zap(self): ...\nz = \\\n    Z()\nz.█", "+zap";
        a_dot_on_the_next_line: "class Z:\n    def zap(self): ...\nz = (Z()\n    .█", "+zap";
        inside_a_call_over_lines: "class Z:\n    def zap(self): ...\nz = Z()\nprint(\n    1,\n    z.█", "+zap";
        after_non_ascii_text: "class Z:\n    def zap(self): ...\nz = Z(); s = '🦀'; z.█", "+zap";
        a_bom: "import lib\nlib.█\n#- lib.py\n\u{feff}def puff(): ...\n", "+puff";
        a_decorator_line: "class Z:\n    def zap(self): ...\nz = Z()\n@z.█\ndef f(): ...\n", "+zap";
        a_default_value: "class Z:\n    def zap(self): ...\nz = Z()\ndef f(a=z.█", "+zap";
        an_annotation: "import lib\ndef f(a: lib.█\n#- lib.py\nclass Z: ...\n", "+Z";
        a_condition: "class Z:\n    def zap(self): ...\nz = Z()\nif z.█", "+zap";
        a_subscript: "class Z:\n    def zap(self): ...\nz = Z()\nxs[z.█", "+zap";
        a_dictionary_value: "class Z:\n    def zap(self): ...\nz = Z()\nd = {'k': z.█", "+zap";
        a_chain_of_calls: "class Z:\n    def zap(self):\n        return self\nz = Z()\nz.zap().zap().█", "+zap";
        a_parenthesised_receiver: "class Z:\n    def zap(self): ...\n((Z())).█", "+zap";
        print_of_python_2_above: "class Z:\n    def zap(self): ...\nprint 'x'\nz = Z()\nz.█", "+zap";
        a_nested_function: "class Z:\n    def zap(self): ...\ndef f():\n    z = Z()\n    def g():\n        return z.█\n    return g\n", "+zap";
        a_method_of_a_local_class: "def f():\n    class L:\n        def zap(self):\n            return self.█\n    return L\n", "+zap";
        a_method_named_like_a_builtin: "class F:\n    def open(self):\n        return open('x').█\n", "+read";
        text_below_the_cursor_in_the_function_does_not_hide_it: "class Z:\n    def zap(self): ...\ndef f(z: Z):\n    y = z.█\n    for a in (1, 2:\n        pass\n", "+zap";
    }
}
