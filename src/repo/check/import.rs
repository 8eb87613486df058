//! E0401 and E0611: modules that are not there, and names that they do not have.
//!
//! # Place
//! Part of the checker.

use super::inspect::Inspection;
use super::member::module_may_have;
use super::message::Message;
use crate::base::Origin;
use crate::repo::infer::Members;
use crate::repo::name::Name;
use crate::repo::syntax::*;
use crate::repo::walk::Around;

impl Inspection<'_, '_> {
    pub(super) fn check_import(&mut self, names: Run, around: Around) {
        if around.catches_import || around.guarded || !self.wants(Message::ImportError) {
            return;
        }
        let file = self.file.clone();
        for alias in &file.ast.aliases[names.range()] {
            let span = Span {
                start: alias.name_start,
                end: alias.name_start + alias.name.as_str().len() as u32,
            };
            if self.is_missing(alias.name) {
                self.report_module(alias.name, span);
            }
        }
    }

    pub(super) fn check_import_from(&mut self, from: u32, around: Around) {
        if around.catches_import || around.guarded {
            return;
        }
        let file = self.file.clone();
        let node = &file.ast.imports_from[from as usize];
        if node.module.as_str() == "__future__" {
            return;
        }
        let Some(module) = file.absolute(node.level, node.module) else {
            return; // Above the top package: how the file is run decides.
        };
        let start = node.module_start;
        let span = Span { start, end: start + node.module.as_str().len() as u32 };
        let Some(id) = self.world.resolve_module(module) else {
            let known = node.level == 0 || file.module_name != Name::EMPTY;
            if known && self.is_missing(module) {
                self.report_module(module, span);
            }
            return;
        };
        if !self.wants(Message::NoNameInModule) || Some(id) == file.module {
            return;
        }
        for alias in &file.ast.aliases[node.names.range()] {
            let name = alias.name;
            if name == Name::EMPTY || name == Name::CURSOR || name.is_dunder() {
                continue;
            }
            self.world.renew();
            if module_may_have(self.world, id, name) {
                continue;
            }
            let mut members = Members::default();
            self.world.module_members(id, &mut members);
            if members.open.is_some() || members.names.contains_key(&name) {
                continue;
            }
            let start = alias.name_start;
            let span = Span { start, end: start + name.as_str().len() as u32 };
            let text = format!("no name '{name}' in module '{module}'");
            self.report(Message::NoNameInModule, span, start, text);
        }
    }

    fn report_module(&mut self, module: Name, span: Span) {
        let text = format!("unable to import '{module}'");
        self.report(Message::ImportError, span, span.start, text);
    }

    /// Is a module surely not there?
    fn is_missing(&self, module: Name) -> bool {
        let world = self.world;
        if module == Name::EMPTY || module.as_str().contains('\0') {
            return false;
        }
        if world.resolve_module(module).is_some() {
            return false;
        }
        let text = module.as_str();
        match text.rsplit_once('.') {
            None => {
                self.knows_packages
                    && !world.library().is_builtin_module(text)
                    && text != "__main__"
            }
            Some((parent, _)) => match world.resolve_module(Name::new(parent)) {
                // The outermost part that is missing tells.
                None => self.is_missing(Name::new(parent)),
                Some(id) => {
                    let parent = world.module(id);
                    let Some(source) = parent.source.map(|f| world.file(f)) else {
                        return false;
                    };
                    // Packages that extend their path, or put modules of their own into the table.
                    let plain =
                        !source.text.contains("__path__") && !source.text.contains("sys.modules");
                    let is_known = parent.origin == Origin::Project || self.knows_packages;
                    plain && is_known && parent.is_package
                }
            },
        }
    }
}
