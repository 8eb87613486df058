//! E1102, E1120, E1121, E1123: calls of what cannot be called, and arguments that do not fit.
//!
//! # Place
//! Part of the checker. The callee must be one function of which the source is known.

use super::inspect::Inspection;
use super::message::Message;
use crate::repo::infer::{Callee, Constructor, Env, Ty};
use crate::repo::name::Name;
use crate::repo::syntax::*;
use crate::repo::walk::Around;

/// The arguments of a call, counted.
struct Given<'a> {
    n_positional: usize,
    keywords: Vec<&'a Arg>,
    has_star: bool,
    has_double_star: bool,
}

impl<'a> Given<'a> {
    fn of(args: &'a [Arg]) -> Self {
        let count = |kind: fn(&ArgKind) -> bool| args.iter().filter(|a| kind(&a.kind)).count();
        Self {
            n_positional: count(|k| matches!(k, ArgKind::Positional)),
            keywords: args.iter().filter(|a| matches!(a.kind, ArgKind::Keyword(_))).collect(),
            has_star: count(|k| matches!(k, ArgKind::Star)) > 0,
            has_double_star: count(|k| matches!(k, ArgKind::DoubleStar)) > 0,
        }
    }
}

impl Inspection<'_, '_> {
    pub(super) fn check_call(
        &mut self,
        env: &Env,
        call: ExprId,
        func: ExprId,
        args: Run,
        around: Around,
    ) {
        let wanted = [
            Message::NotCallable,
            Message::NoValueForParameter,
            Message::TooManyFunctionArgs,
            Message::UnexpectedKeywordArg,
        ];
        let silent = around.catches_type || around.annotation || around.guarded;
        if silent || !wanted.iter().any(|m| self.wants(*m)) {
            return;
        }
        let Some(callee) = self.sure_value(env, func) else {
            return;
        };
        let file = self.file.clone();
        let span = file.ast.expr(func).span;
        if callee.items.iter().all(|t| self.world.surely_lacks(t, &[Name::CALL])) {
            // A value that some test looked at may be another one by now.
            let what = self.described(&callee.items[0]);
            let text = format!("{what} is not callable");
            self.report(Message::NotCallable, span, span.start, text);
            return;
        }
        let [only] = &callee.items[..] else {
            return;
        };
        let given = Given::of(file.ast.args(args));
        let at = file.ast.expr(call).span;
        match only {
            Ty::Class { class, .. } => match self.world.certain_constructor(*class) {
                Some(Constructor::Function(init)) => {
                    let what = format!("constructor of '{}'", self.world.class_name(*class));
                    self.check_arguments(&init, &given, at, &what);
                }
                Some(Constructor::Plain) if given.n_positional > 0 => {
                    let name = self.world.class_name(*class);
                    let text = format!("too many positional arguments for constructor of '{name}'");
                    self.report(Message::TooManyFunctionArgs, at, at.start, text);
                }
                _ => {}
            },
            Ty::Function { .. } => {
                if let Some(callee) = self.world.certain_callee(only) {
                    let what = self.described(only);
                    self.check_arguments(&callee, &given, at, &what);
                }
            }
            _ => {}
        }
    }

    fn check_arguments(&mut self, callee: &Callee, given: &Given<'_>, at: Span, what: &str) {
        let ast = &callee.file.ast;
        let params = ast.params(ast.function(callee.func).params);
        let plain: Vec<&Param> = params
            .iter()
            .filter(|p| matches!(p.kind, ParamKind::Normal | ParamKind::PositionalOnly))
            .skip(callee.n_filled)
            .collect();
        let has = |kind| params.iter().any(|p| p.kind == kind);
        if given.n_positional > plain.len() && !has(ParamKind::VarArgs) {
            let text = format!("too many positional arguments for {what}");
            self.report(Message::TooManyFunctionArgs, at, at.start, text);
            return;
        }
        for arg in &given.keywords {
            let ArgKind::Keyword(name) = arg.kind else {
                continue;
            };
            let accepted = params.iter().any(|p| {
                p.name == name && matches!(p.kind, ParamKind::Normal | ParamKind::KeywordOnly)
            });
            if !accepted && !has(ParamKind::VarKeywords) {
                let end = arg.start + name.as_str().len() as u32;
                let text = format!("unexpected keyword argument '{name}' in call of {what}");
                let span = Span { start: arg.start, end };
                self.report(Message::UnexpectedKeywordArg, span, at.start, text);
            }
        }
        if given.has_star || given.has_double_star {
            return;
        }
        for p in plain.iter().skip(given.n_positional) {
            let is_given = given.keywords.iter().any(|a| a.kind == ArgKind::Keyword(p.name));
            if p.default == ExprId::NONE && !is_given {
                let text = format!("no value for argument '{}' in call of {what}", p.name);
                self.report(Message::NoValueForParameter, at, at.start, text);
            }
        }
    }
}
