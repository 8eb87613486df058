//! Progress bars on standard error; silent when it is not a terminal.
//!
//! # Place
//! Part of `cli`.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over bytes.
pub(super) fn bytes(total: u64, what: &str) -> ProgressBar {
    styled(total, what, "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}")
}

/// A bar over things.
pub(super) fn items(total: u64, what: &str) -> ProgressBar {
    styled(total, what, "{msg} [{bar:30}] {pos}/{len}")
}

fn styled(total: u64, what: &str, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(what.to_owned());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// A sign of life for something that does not say how far it is.
pub(super) fn unknown(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}
