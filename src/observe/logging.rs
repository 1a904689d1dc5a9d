//! The program's logger: plain lines on stderr, safe to show.
//!
//! An application that embeds the engine hands in a logger of its own; the library itself logs nowhere.
//! The drain is synchronous behind a mutex: a queue would lose its last lines when the process ends.

use std::io::{self, Write};
use std::sync::Mutex;

use slog::{Drain, FilterLevel, Logger, OwnedKVList, Record, o};
use slog_term::{Decorator, FullFormat, PlainSyncDecorator, RecordDecorator, TermDecorator};

use crate::settings::{LogLevel, LogSettings};

/// A logger to stderr. Colours only on a terminal, and not where `NO_COLOR` is set.
pub fn to_stderr(settings: &LogSettings) -> Logger {
    logger(settings.level, TermDecorator::new().stderr().build())
}

/// A logger of plain lines to `out`.
pub fn to_writer<W: Write + Send + 'static>(settings: &LogSettings, out: W) -> Logger {
    logger(settings.level, PlainSyncDecorator::new(out))
}

fn logger<D: Decorator + Send + 'static>(level: LogLevel, decorator: D) -> Logger {
    let drain = FullFormat::new(Escaping(decorator))
        .use_utc_timestamp()
        .use_original_order()
        .build();
    // A full disk or a closed pipe must not stop a crawl.
    let drain = Mutex::new(drain.ignore_res()).ignore_res();
    let least = filter(level);
    Logger::root(
        drain
            .filter(move |record| least.accepts(record.level()))
            .fuse(),
        o!(),
    )
}

const fn filter(level: LogLevel) -> FilterLevel {
    match level {
        LogLevel::Error => FilterLevel::Error,
        LogLevel::Warning => FilterLevel::Warning,
        LogLevel::Info => FilterLevel::Info,
        LogLevel::Debug => FilterLevel::Debug,
        LogLevel::Trace => FilterLevel::Trace,
    }
}

/// Writes control characters as escapes, so that text from the web can neither forge a line nor speak to
/// the terminal. What the format itself adds, colours and the line's end, passes.
struct Escaping<D>(D);

impl<D: Decorator> Decorator for Escaping<D> {
    fn with_record<F>(&self, record: &Record<'_>, values: &OwnedKVList, f: F) -> io::Result<()>
    where
        F: FnOnce(&mut dyn RecordDecorator) -> io::Result<()>,
    {
        self.0.with_record(record, values, |inner| {
            f(&mut EscapingRecord { inner, own: false })
        })
    }
}

struct EscapingRecord<'d> {
    inner: &'d mut dyn RecordDecorator,
    /// Whether what is written now is the format's own white space.
    own: bool,
}

impl Write for EscapingRecord<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.own {
            return self.inner.write(bytes);
        }
        for chunk in bytes.utf8_chunks() {
            let mut plain = 0;
            let text = chunk.valid();
            for (at, c) in text.char_indices().filter(|(_, c)| is_unsafe(*c)) {
                self.inner.write_all(&text.as_bytes()[plain..at])?;
                write!(self.inner, "{}", c.escape_default())?;
                plain = at + c.len_utf8();
            }
            self.inner.write_all(&text.as_bytes()[plain..])?;
            for byte in chunk.invalid() {
                write!(self.inner, "\\x{byte:02x}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// C0, DEL and C1, and what Unicode has to break a line or to turn the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

macro_rules! sections {
    ($($name:ident = $own:literal),+ $(,)?) => { $(
        fn $name(&mut self) -> io::Result<()> {
            self.own = $own;
            self.inner.$name()
        }
    )+ };
}

impl RecordDecorator for EscapingRecord<'_> {
    sections!(
        reset = false,
        start_whitespace = true,
        start_msg = false,
        start_timestamp = false,
        start_level = false,
        start_comma = false,
        start_key = false,
        start_value = false,
        start_location = false,
        start_separator = false,
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use slog::{debug, error, info, trace, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: LogLevel, log: impl FnOnce(&Logger)) -> String {
        let memory = Memory::default();
        log(&to_writer(&LogSettings { level }, memory.clone()));
        let bytes = memory.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn control_characters_are_escaped_in_message_and_values() {
        let evil = "a\u{1b}[31m\nINFO forged\r\u{7f}\u{9b}31m\u{2028}\u{202e}ü";
        let text = logged(LogLevel::Info, |log| {
            let log = log.new(o!("site" => "x\ny"));
            info!(log, "{}", evil; "title" => evil);
        });
        let escaped = r"a\u{1b}[31m\nINFO forged\r\u{7f}\u{9b}31m\u{2028}\u{202e}ü";
        assert!(text.contains(&format!("INFO {escaped}, ")), "{text}");
        assert!(text.contains(&format!("title: {escaped}")), "{text}");
        assert!(text.contains(r"site: x\ny"), "{text}");
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn the_level_decides_what_is_logged() {
        let levels = [
            (LogLevel::Error, 1),
            (LogLevel::Warning, 2),
            (LogLevel::Info, 3),
            (LogLevel::Debug, 4),
            (LogLevel::Trace, 5),
        ];
        for (level, lines) in levels {
            let text = logged(level, |log| {
                error!(log, "e");
                warn!(log, "w");
                info!(log, "i");
                debug!(log, "d");
                trace!(log, "t");
            });
            assert_eq!(text.lines().count(), lines, "{level:?}: {text}");
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn a_writer_that_fails_stops_nothing() {
        let log = to_writer(
            &LogSettings {
                level: LogLevel::Info,
            },
            Full,
        );
        info!(log, "lost");
        info!(log, "lost too");
    }

    proptest! {
        #[test]
        fn whatever_is_logged_stays_on_one_line(text in any::<String>()) {
            let line = logged(LogLevel::Info, |log| info!(log, "{}", text; "value" => &text));
            let body = line.strip_suffix('\n').unwrap();
            prop_assert!(!body.chars().any(is_unsafe), "{:?}", body);
        }
    }
}
