//! Process groups: a child in a group of its own, and an end to all of it.
//!
//! # Place
//! Part of `sandbox`; the one file that calls the operating system for it.
#![allow(unsafe_code)] // kill(2) on a process group has no safe form in the standard library

use std::process::{Child, Command};

/// Start the command in a process group of its own.
pub(super) fn own_group(command: &mut Command) {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
    }
    #[cfg(not(unix))]
    let _ = command;
}

/// Kill the child's whole group.
pub(super) fn group(child: &Child) {
    #[cfg(unix)]
    if let Ok(pid) = i32::try_from(child.id()) {
        // SAFETY: kill takes no pointers; the group is the child's own, which is not reaped yet, so
        // its number cannot belong to anybody else.
        unsafe {
            libc::kill(-pid, libc::SIGKILL);
        }
    }
    #[cfg(not(unix))]
    let _ = child;
}
