//! What a run came to, by package and by kind of position, and whether that is good enough.
//!
//! # Place
//! Part of `bench::completion`. Pure: outcomes in, numbers and text out.

use super::position::{NameContext, Position, PositionKind};
use super::{CompletionBenchError, Outcome, Positions};

/// A wrong wall is worse than a missing name: this much more is a drop, whatever the slack.
const FALSE_CLOSED_SLACK_MAX: f64 = 0.003;

/// The package column of the rows over all packages.
pub const ALL: &str = "ALL";

/// Which positions a row is about. Slices overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slice {
    Every,
    /// Members that are read.
    Member,
    /// Members that are read, of a class of the project.
    MemberOwn,
    /// Members that are assigned or deleted: an assignment may make the member.
    MemberStore,
    /// Names that are read.
    Name,
    /// Names that are read and bound only after the cursor.
    NameForward,
    /// Names of keyword arguments.
    Keyword,
}

impl Slice {
    /// All slices, in the order of the report.
    pub const ALL: [Self; 7] = [
        Self::Every,
        Self::Member,
        Self::MemberOwn,
        Self::MemberStore,
        Self::Name,
        Self::NameForward,
        Self::Keyword,
    ];

    /// The spelling used in CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Every => "every",
            Self::Member => "member",
            Self::MemberOwn => "member_own",
            Self::MemberStore => "member_store",
            Self::Name => "name",
            Self::NameForward => "name_forward",
            Self::Keyword => "keyword",
        }
    }

    fn holds(self, position: &Position) -> bool {
        let is_load = position.ctx == NameContext::Load;
        let is_member = position.kind == PositionKind::Member;
        match self {
            Self::Every => true,
            Self::Member => is_member && is_load,
            Self::MemberOwn => is_member && is_load && position.own_class,
            Self::MemberStore => is_member && !is_load,
            Self::Name => position.kind == PositionKind::Name,
            Self::NameForward => position.kind == PositionKind::Name && position.forward,
            Self::Keyword => position.kind == PositionKind::Keyword,
        }
    }
}

/// The counts of one slice of one package.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub package: String,
    pub slice: Slice,
    pub n: usize,
    /// The true name was among the names.
    pub offered: usize,
    pub closed: usize,
    pub open: usize,
    pub unknown: usize,
    pub timed_out: usize,
    /// Answered `Closed` without the true name: a decoder would have been kept from writing it.
    pub false_closed: usize,
    pub functions: usize,
    /// Functions with a false `Closed`.
    pub functions_forbidden: usize,
    pub ms_p50: f64,
    pub ms_p95: f64,
    pub ms_max: f64,
}

/// Something a row can be judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    OfferedRate,
    /// Answered `Closed` or `Open`.
    KnownRate,
    FalseClosedRate,
    MsP50,
    MsP95,
    MsMax,
}

impl Measure {
    const ALL: [Self; 6] = [
        Self::OfferedRate,
        Self::KnownRate,
        Self::FalseClosedRate,
        Self::MsP50,
        Self::MsP95,
        Self::MsMax,
    ];

    /// The spelling used in CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OfferedRate => "offered_rate",
            Self::KnownRate => "known_rate",
            Self::FalseClosedRate => "false_closed_rate",
            Self::MsP50 => "ms_p50",
            Self::MsP95 => "ms_p95",
            Self::MsMax => "ms_max",
        }
    }

    /// More is better for the first two, less for the others.
    const fn is_better_larger(self) -> bool {
        matches!(self, Self::OfferedRate | Self::KnownRate)
    }
}

impl Row {
    /// The value of a measure.
    pub fn measure(&self, measure: Measure) -> f64 {
        let rate = |count: usize| count as f64 / self.n.max(1) as f64;
        match measure {
            Measure::OfferedRate => rate(self.offered),
            Measure::KnownRate => rate(self.closed + self.open),
            Measure::FalseClosedRate => rate(self.false_closed),
            Measure::MsP50 => self.ms_p50,
            Measure::MsP95 => self.ms_p95,
            Measure::MsMax => self.ms_max,
        }
    }

    fn new(package: &str, slice: Slice, of: &[(&Position, &Outcome)]) -> Self {
        let count = |keep: &dyn Fn(&Outcome) -> bool| of.iter().filter(|(_, o)| keep(o)).count();
        let is_false = |o: &Outcome| o.answer == "closed" && !o.offered;
        let functions = |keep: &dyn Fn(&Outcome) -> bool| {
            let kept = of.iter().filter(|(_, o)| keep(o));
            let mut ids: Vec<_> = kept.map(|(p, _)| (&p.file, p.span_byte)).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.len()
        };
        let mut ms: Vec<f64> = of.iter().map(|(_, o)| o.ms).collect();
        ms.sort_unstable_by(f64::total_cmp);
        Self {
            package: package.to_owned(),
            slice,
            n: of.len(),
            offered: count(&|o| o.offered),
            closed: count(&|o| o.answer == "closed"),
            open: count(&|o| o.answer == "open"),
            unknown: count(&|o| o.answer == "unknown"),
            timed_out: count(&|o| o.answer == "timed_out"),
            false_closed: count(&is_false),
            functions: functions(&|_| true),
            functions_forbidden: functions(&is_false),
            ms_p50: quantile(&ms, 50),
            ms_p95: quantile(&ms, 95),
            ms_max: quantile(&ms, 100),
        }
    }
}

/// The smallest sorted value that at least `percent` of them do not exceed; 0 of none.
pub(super) fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// One row for each package and slice that has positions, those over all packages first.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub rows: Vec<Row>,
}

impl Report {
    /// Count outcomes, which belong to the positions one by one; surplus on either side is left out.
    pub fn new(positions: &Positions, outcomes: &[Outcome]) -> Self {
        let pairs: Vec<_> = positions.positions.iter().zip(outcomes).collect();
        let mut packages: Vec<&str> = Vec::new();
        for (position, _) in &pairs {
            if !packages.contains(&position.package.as_str()) {
                packages.push(&position.package);
            }
        }
        let mut rows = Vec::new();
        for package in std::iter::once(ALL).chain(packages) {
            for slice in Slice::ALL {
                let of = pairs
                    .iter()
                    .copied()
                    .filter(|(p, _)| slice.holds(p) && (package == ALL || p.package == package));
                let of: Vec<_> = of.collect();
                if !of.is_empty() {
                    rows.push(Row::new(package, slice, &of));
                }
            }
        }
        Self { rows }
    }

    /// The row of a package and slice.
    pub fn row(&self, package: &str, slice: Slice) -> Option<&Row> {
        let found = |row: &&Row| row.package == package && row.slice == slice;
        self.rows.iter().find(found)
    }

    /// One line for each row, with a head.
    pub fn to_csv(&self) -> String {
        let mut csv = "package,slice,n,offered,offered_rate,closed,open,unknown,timed_out,known_rate,\
                       false_closed,false_closed_rate,functions,functions_forbidden,ms_p50,ms_p95,ms_max\n"
            .to_owned();
        for r in &self.rows {
            let rate = |measure| r.measure(measure);
            csv.push_str(&format!(
                "{},{},{},{},{:.4},{},{},{},{},{:.4},{},{:.4},{},{},{:.3},{:.3},{:.3}\n",
                r.package,
                r.slice.as_str(),
                r.n,
                r.offered,
                rate(Measure::OfferedRate),
                r.closed,
                r.open,
                r.unknown,
                r.timed_out,
                rate(Measure::KnownRate),
                r.false_closed,
                rate(Measure::FalseClosedRate),
                r.functions,
                r.functions_forbidden,
                r.ms_p50,
                r.ms_p95,
                r.ms_max,
            ));
        }
        csv
    }
}

/// What a report has to reach. Rates and times are bounded from the side on which they get worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub package: String,
    pub slice: Slice,
    pub measure: Measure,
    pub bound: f64,
}

/// A threshold that was missed, as a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Missed(pub String);

impl Threshold {
    /// Read thresholds from CSV: `package,slice,measure,bound` with a head.
    ///
    /// # Errors
    /// When a line is not a threshold; `path` only names the file in the message.
    pub fn read_csv(path: &std::path::Path, csv: &str) -> Result<Vec<Self>, CompletionBenchError> {
        let lines = csv.lines().enumerate().skip(1);
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let parse = |(i, line): (usize, &str)| {
            Self::parse(line).ok_or_else(|| CompletionBenchError::Line {
                path: path.to_owned(),
                line: i + 1,
                what: "threshold",
                problem: format!("{line:?} is not `package,slice,measure,bound`"),
            })
        };
        lines.map(parse).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let &[package, slice, measure, bound] = fields.as_slice() else {
            return None;
        };
        Some(Self {
            package: package.to_owned(),
            slice: Slice::ALL.into_iter().find(|s| s.as_str() == slice)?,
            measure: Measure::ALL.into_iter().find(|m| m.as_str() == measure)?,
            bound: bound.parse().ok().filter(|b: &f64| b.is_finite())?,
        })
    }

    /// Thresholds that ask for at least what a peer reached over all packages: names offered, and
    /// positions it knew something about.
    pub fn from_peer(peer: &Report) -> Vec<Self> {
        let asked = [
            (Slice::Member, Measure::OfferedRate),
            (Slice::Member, Measure::KnownRate),
            (Slice::Name, Measure::OfferedRate),
        ];
        let of = |(slice, measure)| {
            peer.row(ALL, slice).map(|row: &Row| Self {
                package: ALL.to_owned(),
                slice,
                measure,
                bound: row.measure(measure),
            })
        };
        asked.into_iter().filter_map(of).collect()
    }

    /// Thresholds that keep what a report reached, package by package, with `slack` for each rate: a later
    /// run that drops fails.
    pub fn ratchet(reached: &Report, slack: f64) -> Vec<Self> {
        let kept = |row: &Row| match row.slice {
            Slice::Member | Slice::MemberOwn | Slice::Name => Some((Measure::OfferedRate, -slack)),
            Slice::Every => Some((Measure::FalseClosedRate, slack.min(FALSE_CLOSED_SLACK_MAX))),
            Slice::MemberStore | Slice::NameForward | Slice::Keyword => None,
        };
        let of = |row: &Row| {
            kept(row).map(|(measure, slack)| Self {
                package: row.package.clone(),
                slice: row.slice,
                measure,
                bound: (row.measure(measure) + slack).clamp(0.0, 1.0),
            })
        };
        reached.rows.iter().filter_map(of).collect()
    }

    /// The CSV that [`Threshold::read_csv`] reads.
    pub fn to_csv(thresholds: &[Self]) -> String {
        let mut csv = "package,slice,measure,bound\n".to_owned();
        for t in thresholds {
            let (slice, measure) = (t.slice.as_str(), t.measure.as_str());
            csv.push_str(&format!("{},{slice},{measure},{}\n", t.package, t.bound));
        }
        csv
    }

    /// The thresholds that a report misses. A row that is not there is missed too.
    pub fn check(thresholds: &[Self], report: &Report) -> Vec<Missed> {
        thresholds.iter().filter_map(|t| t.missed_by(report)).collect()
    }

    fn missed_by(&self, report: &Report) -> Option<Missed> {
        let (package, slice, measure) = (&self.package, self.slice.as_str(), self.measure.as_str());
        let Some(row) = report.row(package, self.slice) else {
            return Some(Missed(format!("{package} {slice}: no positions")));
        };
        let value = row.measure(self.measure);
        let (holds, side) = match self.measure.is_better_larger() {
            true => (value >= self.bound, "least"),
            false => (value <= self.bound, "most"),
        };
        let bound = self.bound;
        (!holds).then(|| {
            Missed(format!(
                "{package} {slice}: {measure} is {value:.4}, at {side} {bound:.4} wanted"
            ))
        })
    }
}
