//! A pseudo-terminal for a process of this machine.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde::Deserialize;
use tokio::net::unix::pipe;

/// The size of a terminal, as clients send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TerminalSize {
    pub(crate) width: u16,
    pub(crate) height: u16,
}

/// Our side of a pseudo-terminal. Every clone is the same one.
#[derive(Clone)]
pub(crate) struct Terminal(Arc<TerminalStreams>);

/// Tokio has no type for terminals; those for pipes read and write any file that can be polled.
struct TerminalStreams {
    input: pipe::Sender,
    output: pipe::Receiver,
}

impl Terminal {
    /// Opens a terminal, and returns our side of it and that of the process.
    pub(crate) fn open() -> io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let of_process = ioctl_tiocgptpeer(&ours, flags)?;
        fcntl_setfl(&ours, fcntl_getfl(&ours)? | OFlags::NONBLOCK)?;
        let input = pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?;
        let output = pipe::Receiver::from_owned_fd_unchecked(ours)?;
        Ok((Self(Arc::new(TerminalStreams { input, output })), of_process))
    }

    /// Reads what the process has written; 0 bytes: no process has the terminal open any more.
    pub(crate) async fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.0.output.readable().await?;
            match self.0.output.try_read(into) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                // This is how Linux reports the end.
                Err(err) if err.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(0),
                read => return read,
            }
        }
    }

    /// Writes what the process reads.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.0.input.writable().await?;
            match self.0.input.try_write(bytes) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                written => bytes = &bytes[written?..],
            }
        }
        Ok(())
    }

    /// Sets the size of the terminal; the process receives a signal.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.0.input, size)?)
    }
}
