//! Classes made of fields: named tuples, data classes, attrs classes and enums.
//!
//! # Place
//! Adds to `class` and `attribute` what such classes have besides what is written in them.
//! # Sources
//! The documentation of `collections.namedtuple`, `typing.NamedTuple`, `dataclasses`, `enum` and of
//! attrs 24.

use super::annotation::string_value;
use super::class::{FieldClass, Own};
use super::ty::{ClassKey, Ty, TySet};
use super::world::{Env, World};
use crate::repo::file::File;
use crate::repo::name::Name;
use crate::repo::scope::BindKind;
use crate::repo::syntax::*;
use std::sync::Arc;

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// A field of a class made of fields.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) annotation: Option<ExprId>,
    pub(crate) pos: u32,
    pub(crate) has_default: bool,
    pub(crate) in_init: bool,
}

impl World<'_> {
    /// The fields of a named tuple class: written as annotations, or in the call that makes it.
    fn named_tuple_fields(&self, class: ClassKey) -> Option<(Arc<File>, Vec<Field>)> {
        if self.field_class(class) != Some(FieldClass::NamedTuple) {
            return None;
        }
        let file = self.file(class.file);
        if let Some(call) = class.call() {
            let ExprKind::Call { func, args } = file.ast.kind(call) else {
                return None;
            };
            let is_typed = matches!(
                file.ast.kind(func),
                ExprKind::Name(Name::NAMED_TUPLE)
                    | ExprKind::Attribute { name: Name::NAMED_TUPLE, .. }
            );
            let fields = self.fields_of_call(&file, args, is_typed)?;
            return Some((file, fields));
        }
        Some((file.clone(), self.annotated_fields(&file, class.class()?)))
    }

    fn annotated_fields(&self, file: &File, id: ClassId) -> Vec<Field> {
        let scope = file.scopes.of_class(id);
        let mut fields: Vec<Field> = file
            .scopes
            .all(scope)
            .iter()
            .filter_map(|b| match b.kind {
                BindKind::Annotated { annotation, value } => Some(Field {
                    name: b.name,
                    annotation: Some(annotation),
                    pos: b.pos,
                    has_default: value != ExprId::NONE,
                    in_init: true,
                }),
                _ => None,
            })
            .collect();
        fields.sort_by_key(|f| f.pos);
        fields
    }

    fn fields_of_call(&self, file: &File, args: Run, is_typed: bool) -> Option<Vec<Field>> {
        let ast = &file.ast;
        let args = ast.args(args);
        let list = args.iter().filter(|a| a.kind == ArgKind::Positional).nth(1).or_else(|| {
            args.iter().find(|a| a.kind == ArgKind::Keyword(Name::new("field_names")))
        })?;
        let rename = args.iter().any(|a| {
            a.kind == ArgKind::Keyword(Name::RENAME) && matches!(ast.kind(a.value), ExprKind::True)
        });
        let n_defaults = args
            .iter()
            .find(|a| a.kind == ArgKind::Keyword(Name::new("defaults")))
            .map_or(0, |a| match ast.kind(a.value) {
                ExprKind::Tuple { items } | ExprKind::List { items } => items.len as usize,
                _ => usize::MAX,
            });
        let mut names: Vec<(String, Option<ExprId>, u32)> = Vec::new();
        let pos_of = |e: ExprId| ast.expr(e).span.start;
        match ast.kind(list.value) {
            ExprKind::Str => {
                let text = string_value(file, list.value)?;
                names.extend(
                    text.replace(',', " ")
                        .split_whitespace()
                        .map(|s| (s.to_owned(), None, pos_of(list.value))),
                );
            }
            ExprKind::List { items } | ExprKind::Tuple { items } => {
                for &item in ast.list(items) {
                    match ast.kind(item) {
                        ExprKind::Tuple { items } if is_typed => {
                            let pair = ast.list(items);
                            let name = pair.first().and_then(|n| string_value(file, *n))?;
                            names.push((name.to_owned(), pair.get(1).copied(), pos_of(item)));
                        }
                        _ => names.push((string_value(file, item)?.to_owned(), None, pos_of(item))),
                    }
                }
            }
            _ => return None,
        }
        let n = names.len();
        let mut seen: Vec<String> = Vec::new();
        Some(
            names
                .into_iter()
                .enumerate()
                .map(|(i, (name, annotation, pos))| {
                    let bad = KEYWORDS.contains(&name.as_str())
                        || name.starts_with('_')
                        || !crate::repo::library::is_identifier(&name)
                        || seen.contains(&name);
                    seen.push(name.clone());
                    let name = if rename && bad { format!("_{i}") } else { name };
                    Field {
                        name: Name::new(&name),
                        annotation,
                        pos,
                        has_default: i + n_defaults.min(n) >= n,
                        in_init: true,
                    }
                })
                .collect(),
        )
    }

    pub(super) fn named_tuple_names(&self, class: ClassKey, own: &mut Own) {
        match self.named_tuple_fields(class) {
            Some((_, fields)) => {
                for field in fields {
                    own.add(field.name, true, field.pos);
                }
            }
            None => own.open = Some(Arc::from("computed fields of a named tuple")),
        }
        for name in [
            Name::NAMEDTUPLE_ASDICT,
            Name::NAMEDTUPLE_REPLACE,
            Name::NAMEDTUPLE_FIELDS,
            Name::NAMEDTUPLE_MAKE,
            Name::NAMEDTUPLE_DEFAULTS,
        ] {
            own.add(name, true, 0);
        }
    }

    /// The item types of a named tuple.
    pub(super) fn named_tuple_items(&self, class: ClassKey) -> Option<Arc<[TySet]>> {
        let mro = self.mro(class);
        let owner = mro
            .entries
            .iter()
            .find(|e| self.field_class(e.class) == Some(FieldClass::NamedTuple))?;
        let (file, fields) = self.named_tuple_fields(owner.class)?;
        let env = match owner.class.class() {
            Some(id) => Env::new(file.clone(), file.scopes.of_class(id)),
            None => Env::new(file.clone(), crate::repo::scope::ScopeId::MODULE),
        };
        Some(
            fields
                .iter()
                .map(|f| f.annotation.map_or_else(TySet::unknown, |a| self.annotation(&env, a)))
                .collect(),
        )
    }

    /// Attributes that a class has by being made of fields.
    pub(super) fn made_attribute(
        &self,
        class: ClassKey,
        owner: ClassKey,
        name: Name,
    ) -> Option<TySet> {
        if self.field_class(owner) != Some(FieldClass::NamedTuple) {
            return None;
        }
        let string = || self.of_builtin(Name::STR);
        match name {
            Name::NAMEDTUPLE_ASDICT => {
                let dict = self.generic_builtin(Name::DICT, vec![string(), TySet::unknown()]);
                return Some(TySet::one(Ty::Callable(Arc::new(dict))));
            }
            Name::NAMEDTUPLE_REPLACE | Name::NAMEDTUPLE_MAKE => {
                return Some(TySet::one(Ty::Callable(Arc::new(TySet::instance(class)))));
            }
            Name::NAMEDTUPLE_FIELDS => {
                return Some(self.generic_builtin(Name::TUPLE, vec![string()]));
            }
            Name::NAMEDTUPLE_DEFAULTS => {
                return Some(self.generic_builtin(Name::DICT, vec![string(), TySet::unknown()]));
            }
            _ => {}
        }
        owner.call()?;
        let (file, fields) = self.named_tuple_fields(owner)?;
        let field = fields.iter().find(|f| f.name == name)?;
        let env = Env::new(file, crate::repo::scope::ScopeId::MODULE);
        Some(field.annotation.map_or_else(TySet::unknown, |a| self.annotation(&env, a)))
    }

    /// Names that decorators of a class of fields add.
    pub(super) fn field_names(&self, class: ClassKey, own: &mut Own) {
        match self.field_class(class) {
            Some(FieldClass::Dataclass) => {
                for name in [Name::DATACLASS_FIELDS, Name::DATACLASS_PARAMS, Name::MATCH_ARGS] {
                    own.add(name, true, 0);
                }
            }
            Some(FieldClass::Attrs) => {
                for name in [Name::ATTRS_ATTRS, Name::MATCH_ARGS] {
                    own.add(name, true, 0);
                }
            }
            _ => {}
        }
    }

    /// The parameters of the constructor of a class made of fields, inherited ones first.
    pub(crate) fn constructor_fields(&self, class: ClassKey) -> Option<Vec<(ClassKey, Field)>> {
        let kind = self.field_class(class)?;
        let mut fields: Vec<(ClassKey, Field)> = Vec::new();
        for entry in self.mro(class).entries.iter().rev() {
            if self.field_class(entry.class) != Some(kind) {
                continue;
            }
            let found = match (kind, entry.class.class()) {
                (FieldClass::NamedTuple, _) => self.named_tuple_fields(entry.class)?.1,
                (_, Some(id)) => {
                    let file = self.file(entry.class.file);
                    let mut found = self.annotated_fields(&file, id);
                    found.retain(|f| !self.is_class_var(&file, f));
                    if kind == FieldClass::Attrs {
                        found.extend(self.attrs_assigned(&file, id));
                        found.sort_by_key(|f| f.pos);
                    }
                    for field in &mut found {
                        self.read_field_call(&file, id, field, kind);
                    }
                    found
                }
                _ => Vec::new(),
            };
            for field in found {
                match fields.iter_mut().find(|(_, f)| f.name == field.name) {
                    Some(known) => *known = (entry.class, field),
                    None => fields.push((entry.class, field)),
                }
            }
        }
        Some(fields)
    }

    fn is_class_var(&self, file: &File, field: &Field) -> bool {
        let Some(annotation) = field.annotation else {
            return false;
        };
        let text = file.slice(file.ast.expr(annotation).span);
        text.contains("ClassVar") || text.trim_matches(['"', '\'']).ends_with("KW_ONLY")
    }

    /// `x = attr.ib()`.
    fn attrs_assigned(&self, file: &File, id: ClassId) -> Vec<Field> {
        let scope = file.scopes.of_class(id);
        let mut fields = Vec::new();
        for b in file.scopes.all(scope) {
            if let BindKind::Target { value, .. } = b.kind
                && let ExprKind::Call { func, .. } = file.ast.kind(value)
            {
                let name = match file.ast.kind(func) {
                    ExprKind::Name(n) | ExprKind::Attribute { name: n, .. } => n,
                    _ => continue,
                };
                if matches!(name, Name::IB | Name::ATTRIB | Name::FIELD) {
                    fields.push(Field {
                        name: b.name,
                        annotation: None,
                        pos: b.pos,
                        has_default: false,
                        in_init: true,
                    });
                }
            }
        }
        fields
    }

    /// `field(default=…, init=False)` and `attr.ib(…)`.
    fn read_field_call(&self, file: &File, id: ClassId, field: &mut Field, kind: FieldClass) {
        let scope = file.scopes.of_class(id);
        let value = file.scopes.of(scope, field.name).iter().find_map(|b| match b.kind {
            BindKind::Annotated { value, .. } | BindKind::Target { value, .. } => value.some(),
            _ => None,
        });
        if let Some(value) = value
            && let ExprKind::Call { func, args } = file.ast.kind(value)
        {
            let name = match file.ast.kind(func) {
                ExprKind::Name(n) | ExprKind::Attribute { name: n, .. } => n,
                _ => Name::EMPTY,
            };
            if matches!(name, Name::FIELD | Name::IB | Name::ATTRIB) {
                field.has_default = false;
                for arg in file.ast.args(args) {
                    match arg.kind {
                        ArgKind::Keyword(k) if k.as_str() == "init" => {
                            field.in_init = !matches!(file.ast.kind(arg.value), ExprKind::False);
                        }
                        ArgKind::Keyword(Name::DEFAULT | Name::DEFAULT_FACTORY | Name::FACTORY) => {
                            field.has_default = true;
                        }
                        ArgKind::Keyword(k) if k.as_str() == "alias" => {
                            if let Some(text) = string_value(file, arg.value) {
                                field.name = Name::new(text);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        // attrs leaves out leading underscores in parameter names.
        if kind == FieldClass::Attrs {
            field.name = Name::new(field.name.as_str().trim_start_matches('_'));
        }
    }

    /// Names in the body of an enum are its members.
    pub(super) fn enum_member(&self, class: ClassKey, name: Name, found: TySet) -> TySet {
        if name.is_dunder() || name.is_mangled() || name == Name::IGNORE || !self.is_enum(class) {
            return found;
        }
        let is_value =
            |t: &Ty| !matches!(t, Ty::Function { .. } | Ty::Descriptor(..) | Ty::Class { .. });
        let Some(env) = self.class_env(class) else {
            return found;
        };
        let assigned = env.file.scopes.of(env.scope, name).iter().any(|b| {
            matches!(b.kind, BindKind::Target { .. })
                || (env.file.is_stub && matches!(b.kind, BindKind::Annotated { .. }))
        });
        // The enum module's own classes describe how members work; they have none.
        if !assigned || env.file.module_name == Name::ENUM {
            return found;
        }
        if found.unknown || found.items.iter().any(is_value) {
            return TySet::one(Ty::Instance { class, args: None, exact: true });
        }
        found
    }
}
