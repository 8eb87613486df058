//! Whether an operand that begins at the cursor is surely read, and where a call's arguments begin.
//!
//! # Place
//! Part of the lexer, which tells it about every token; it knows no bytes of its own.
//! # Invariants
//! - A name that is called a read is one, however the text goes on: it cannot become an assignment
//!   target, the target of `:=`, a comprehension's variable, a parameter, a pattern or an annotation.
//! - In doubt nothing is sure: the first operand of a statement, of `x =`, of `if`, and of a bracket may
//!   all still become targets.
//! # Sources
//! The Python Language Reference 3.14, chapter 10 (the full grammar): which rules lead to
//! `named_expression`, `genexp` and `star_targets`.

/// What kind of statement the cursor is in, as far as it decides about reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statement {
    /// Nothing of it is written.
    Start,
    /// An expression or assignment; a colon in it begins an annotation.
    Plain,
    /// `return`, `assert`, `raise`, `with`, `except`, and a `for` after its `in`: what stands here is read.
    Reads,
    /// `if`, `while`, `else`, `try`: a block follows.
    Compound,
    /// The targets of a `for`.
    Targets,
    /// `def` and `class`, up to their colon.
    Header,
    /// Nothing can be told until the line ends: imports, `global`, patterns, annotations, lambdas.
    Off,
}

/// Deepest brackets that are told apart; deeper in, nothing is sure.
const LEVELS_MAX: u8 = 63;

/// What is known about reads at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    statement: Statement,
    /// Brackets and replacement fields around the cursor.
    level: u8,
    /// Levels in which no comprehension can bind a name any more.
    later: u64,
    /// Levels that are the parentheses of a call.
    calls: u64,
    /// Levels in which nothing is sure, because of a lambda or comprehension.
    off: u64,
    /// Levels in which a lambda's parameters are being written.
    params: u64,
    /// The operand that may begin next is no target, as far as its neighbours say.
    is_sure: bool,
    /// An argument of a call begins here.
    is_argument: bool,
    /// The argument so far is one name.
    is_named: bool,
    /// An equals sign that may still become a comparison.
    is_equals: bool,
    /// The operator right before the cursor, or 0.
    last: u8,
}

impl Reading {
    pub(super) const fn new() -> Self {
        Self {
            statement: Statement::Start,
            level: 0,
            later: 1,
            calls: 0,
            off: 0,
            params: 0,
            is_sure: false,
            is_argument: false,
            is_named: false,
            is_equals: false,
            last: 0,
        }
    }

    /// Whether a name that begins with the next byte is surely read.
    pub(super) fn is_read(&self) -> bool {
        let around = (1u64 << self.level) | ((1u64 << self.level) - 1);
        let mut later = self.later;
        if self.is_equals && self.is_named {
            later |= 1 << self.level; // a value after `name=` holds no bare comprehension
        }
        self.is_sure
            && self.level < LEVELS_MAX
            && !matches!(self.statement, Statement::Off | Statement::Header)
            && later & around == around
            && self.off & around == 0
    }

    /// Whether an argument of a call may begin with the next byte.
    pub(super) fn is_argument(&self) -> bool {
        self.is_argument && self.level < LEVELS_MAX
    }

    /// Brackets and fields around the cursor.
    pub(super) fn level(&self) -> u8 {
        self.level
    }

    /// A statement begins; brackets that were open are forgotten.
    pub(super) fn begin_statement(&mut self) {
        *self = Self::new();
    }

    /// White space, or the first byte of anything that is no operator.
    pub(super) fn gap(&mut self) {
        if self.is_equals {
            self.is_equals = false;
            if self.is_named {
                self.later |= 1 << self.level;
                self.is_named = false;
            }
        }
        self.last = 0;
    }

    /// A string or number ended.
    pub(super) fn value(&mut self) {
        self.gap();
        self.operand();
    }

    /// A dot on a value.
    pub(super) fn dot(&mut self) {
        self.gap();
        self.is_named = false;
    }

    fn operand(&mut self) {
        self.is_sure = false;
        self.is_argument = false;
        self.is_named = false;
        if self.statement == Statement::Start {
            self.statement = Statement::Plain;
        }
    }

    /// An identifier ended, or a keyword that is a value.
    pub(super) fn name(&mut self, word: &[u8], is_plain: bool) {
        self.gap();
        let is_named = self.is_argument && is_plain;
        // Soft keywords: whatever follows may be a pattern, or what is evaluated later.
        let is_soft = self.statement == Statement::Start && matches!(word, b"case" | b"type");
        self.operand();
        self.is_named = is_named;
        if is_soft {
            self.statement = Statement::Off;
        }
    }

    /// A keyword ended that is no value.
    pub(super) fn keyword(&mut self, word: &[u8]) {
        self.gap();
        let is_start = self.statement == Statement::Start;
        self.is_argument = false;
        self.is_named = false;
        self.is_sure = match word {
            b"return" | b"assert" | b"raise" | b"yield" | b"with" | b"except" if is_start => {
                self.statement = Statement::Reads;
                true
            }
            b"if" | b"elif" | b"while" | b"else" | b"try" | b"finally" if is_start => {
                self.statement = Statement::Compound;
                false
            }
            b"for" if is_start => {
                self.statement = Statement::Targets;
                false
            }
            b"async" if is_start => false, // the statement is still to begin
            b"def" | b"class" if is_start => {
                self.statement = Statement::Header;
                false
            }
            b"not" | b"await" if is_start => {
                self.statement = Statement::Plain;
                true
            }
            b"lambda" if self.level > 0 => {
                self.off |= 1 << self.level;
                self.params |= 1 << self.level;
                false
            }
            _ if is_start || word == b"lambda" => {
                self.statement = Statement::Off;
                false
            }
            b"in" => {
                if self.level == 0 && self.statement == Statement::Targets {
                    self.statement = Statement::Reads;
                }
                true
            }
            b"and" | b"or" | b"not" | b"is" | b"await" | b"yield" | b"from" | b"if" | b"else" => {
                true
            }
            b"for" => {
                self.off |= 1 << self.level;
                false
            }
            _ => false, // `as`, and keywords that do not belong here
        };
    }

    /// One byte of an operator; `after_value` says whether an operand stands before it.
    pub(super) fn operator(&mut self, byte: u8, after_value: bool) {
        let last = self.last;
        if byte != b'=' {
            self.gap();
        }
        self.last = byte;
        let was_start = self.statement == Statement::Start;
        if was_start {
            self.statement = Statement::Plain;
        }
        match byte {
            b'=' if b"=!<>+-*/%@&|^:".contains(&last) => {
                self.is_equals = false;
                self.is_named = false;
                self.is_sure = true;
            }
            b'=' => {
                self.is_equals = true;
                self.is_named &= self.calls >> self.level & 1 == 1;
                self.is_sure = self.is_named;
            }
            b':' if self.level == 0 => match self.statement {
                Statement::Reads | Statement::Compound | Statement::Header => {
                    self.begin_statement();
                    self.last = byte;
                }
                _ => self.statement = Statement::Off,
            },
            b';' if self.level == 0 => self.begin_statement(),
            b',' if self.level == 0 => self.is_sure = self.statement == Statement::Reads,
            b',' => {
                self.later |= 1 << self.level;
                self.is_sure = false;
            }
            b':' => {
                self.params &= !(1 << self.level);
                self.is_sure = true;
            }
            b'-' | b'+' | b'~' | b'/' | b'%' | b'&' | b'|' | b'^' | b'<' | b'>' => {
                self.is_sure = true;
            }
            b'*' | b'@' if after_value => self.is_sure = true,
            // A star before a target, or the second one of a power.
            b'*' => {}
            _ => self.is_sure = false,
        }
        let is_in_call = (self.calls & !self.params) >> self.level & 1 == 1;
        self.is_argument = byte == b',' && is_in_call;
        if byte != b'=' {
            self.is_named = false;
        }
    }

    /// A bracket opens.
    pub(super) fn open(&mut self, byte: u8, after_value: bool) {
        self.gap();
        let is_call = byte == b'('
            && after_value
            && !matches!(self.statement, Statement::Header | Statement::Off);
        self.operand();
        self.enter();
        if is_call {
            self.calls |= 1 << self.level;
            self.is_argument = true;
        }
        if byte == b'[' && after_value {
            self.later |= 1 << self.level;
        }
    }

    /// A bracket closes.
    pub(super) fn close(&mut self) {
        self.gap();
        self.leave(self.level.saturating_sub(1));
    }

    /// A replacement field of a string opens.
    pub(super) fn open_field(&mut self) {
        self.gap();
        self.operand();
        self.enter();
        self.later |= 1 << self.level;
        self.is_sure = true;
    }

    /// A replacement field ends, and everything open in it; `level` is the one around the string.
    pub(super) fn leave(&mut self, level: u8) {
        self.last = 0;
        self.is_equals = false;
        self.operand();
        self.level = level.min(self.level);
    }

    fn enter(&mut self) {
        self.level = (self.level + 1).min(LEVELS_MAX);
        let bit = 1u64 << self.level;
        self.later &= !bit;
        self.calls &= !bit;
        self.off &= !bit;
        self.params &= !bit;
    }
}
