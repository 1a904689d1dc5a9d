//! Chunked transfer coding, rewritten into its plainest form.
//!
//! awc's reader knows no trailers and takes a missing end for the end. Here every chunk is read by the
//! rules of RFC 9112 §7.1 and written again without extensions and trailers.

use bytes::{Buf, BytesMut};

use super::error::Fault;

/// Longest chunk-size line, extensions included.
const MAX_SIZE_LINE: usize = 4096;

/// The largest chunk size that is believed; the body limit is far below.
const MAX_SIZE_DIGITS: usize = 15;

/// Bytes of size lines beyond what chunks of a usual size need; more are padding that no body limit would count.
const MAX_OVERHEAD: u64 = 64 * 1024;

/// What a chunk of any size may need beside its data: its size in 16 digits and two line ends.
const USUAL_OVERHEAD: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Data { left: u64 },
    DataEnd,
    Trailers { bytes: u64 },
}

/// Reads one chunked body.
#[derive(Debug)]
pub(super) struct Chunks {
    state: State,
    received: u64,
    overhead: u64,
    max_trailers: u64,
}

impl Chunks {
    /// `max_trailers` bounds the bytes of the trailer section.
    pub(super) fn new(max_trailers: u64) -> Self {
        Self {
            state: State::Size,
            received: 0,
            overhead: 0,
            max_trailers,
        }
    }

    /// Body bytes read so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Moves what it can from `input` to `output`; `true` once the body has ended.
    /// What follows the body stays in `input`.
    pub(super) fn feed(
        &mut self,
        input: &mut BytesMut,
        output: &mut BytesMut,
    ) -> Result<bool, Fault> {
        loop {
            match self.state {
                State::Size => {
                    let Some(line) = take_line(input, MAX_SIZE_LINE)? else {
                        return Ok(false);
                    };
                    let size = parse_size(&line)?;
                    // A large chunk may say more about itself than a small one.
                    let usual = USUAL_OVERHEAD.saturating_add(size);
                    self.overhead = (self.overhead + line.len() as u64).saturating_sub(usual);
                    if self.overhead > MAX_OVERHEAD {
                        return Err(bad("the chunk extensions are larger than the body"));
                    }
                    self.state = match size {
                        0 => State::Trailers { bytes: 0 },
                        left => State::Data { left },
                    };
                }
                State::Data { left } => {
                    let run = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    if run == 0 {
                        return Ok(false);
                    }
                    output.extend_from_slice(format!("{run:x}\r\n").as_bytes());
                    output.extend_from_slice(&input[..run]);
                    output.extend_from_slice(b"\r\n");
                    input.advance(run);
                    self.received += run as u64;
                    self.state = match left - run as u64 {
                        0 => State::DataEnd,
                        left => State::Data { left },
                    };
                }
                State::DataEnd => {
                    let skip = match input.as_ref() {
                        [b'\r', b'\n', ..] => 2,
                        [b'\n', ..] => 1,
                        [] | [b'\r'] => return Ok(false),
                        _ => return Err(bad("a chunk is longer than its size")),
                    };
                    input.advance(skip);
                    self.state = State::Size;
                }
                State::Trailers { bytes } => {
                    let limit = usize::try_from(self.max_trailers - bytes).unwrap_or(usize::MAX);
                    let Some(line) = take_line(input, limit)? else {
                        return Ok(false);
                    };
                    if line.is_empty() {
                        output.extend_from_slice(b"0\r\n\r\n");
                        return Ok(true);
                    }
                    let bytes = bytes + line.len() as u64 + 1;
                    if bytes > self.max_trailers {
                        return Err(bad("the trailers are too long"));
                    }
                    self.state = State::Trailers { bytes };
                }
            }
        }
    }
}

fn bad(text: &str) -> Fault {
    Fault::Protocol(text.to_owned())
}

/// The next line without its end, or `None` while it is not whole.
fn take_line(input: &mut BytesMut, max: usize) -> Result<Option<BytesMut>, Fault> {
    let searched = &input[..input.len().min(max.saturating_add(1))];
    let Some(end) = searched.iter().position(|&b| b == b'\n') else {
        return if searched.len() > max {
            Err(bad("a line of the chunked body is too long"))
        } else {
            Ok(None)
        };
    };
    let mut line = input.split_to(end + 1);
    line.truncate(end);
    if line.last() == Some(&b'\r') {
        line.truncate(end - 1);
    }
    Ok(Some(line))
}

/// The size of a chunk; spaces around it and extensions after it are ignored.
fn parse_size(line: &[u8]) -> Result<u64, Fault> {
    let digits = line.split(|&b| b == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii();
    let value = digits.iter().any(|&b| b != b'0').then(|| {
        let start = digits.iter().position(|&b| b != b'0').unwrap_or(0);
        &digits[start..]
    });
    let hex = |digits: &[u8]| {
        let fits = digits.len() <= MAX_SIZE_DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
        let text = fits.then(|| std::str::from_utf8(digits).ok()).flatten()?;
        u64::from_str_radix(text, 16).ok()
    };
    match value {
        None if !digits.is_empty() => Ok(0),
        None => Err(bad("a chunk has no size")),
        Some(digits) => hex(digits).ok_or_else(|| bad("a chunk size is not a hexadecimal number")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `raw` in pieces; gives the rewritten body, whether it ended, and the rest.
    fn run(raw: &[u8], cuts: &[usize]) -> Result<(Vec<u8>, bool, Vec<u8>), Fault> {
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        let mut chunks = Chunks::new(100);
        let mut ended = false;
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            let next = (at + cut).min(raw.len());
            input.extend_from_slice(&raw[at..next]);
            at = next;
            ended = ended || chunks.feed(&mut input, &mut output)?;
            if at == raw.len() {
                break;
            }
        }
        Ok((plain(&output), ended, input.to_vec()))
    }

    /// The payload of a rewritten body.
    fn plain(mut rewritten: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        while let Some(end) = rewritten.windows(2).position(|w| w == b"\r\n") {
            let size = std::str::from_utf8(&rewritten[..end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            data.extend_from_slice(&rewritten[end + 2..end + 2 + size]);
            rewritten = &rewritten[end + 2 + size + 2..];
        }
        assert!(rewritten.is_empty());
        data
    }

    #[test]
    fn extensions_trailers_and_bare_line_feeds() {
        let raw = b"5;a=b\r\nhello\r\n 0006 ; x=\"y\"\r\n world\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\nNEXT";
        let (body, ended, rest) = run(raw, &[raw.len()]).unwrap();
        assert_eq!(
            (body.as_slice(), ended, rest.as_slice()),
            (&b"hello world"[..], true, &b"NEXT"[..])
        );
    }

    #[test]
    fn a_missing_last_chunk_is_no_end() {
        for raw in [
            &b"5\r\nhello\r\n"[..],
            b"5\r\nhel",
            b"5\r\nhello\r\n0\r\n",
            b"",
            b"5",
        ] {
            assert!(!run(raw, &[3]).unwrap().1, "{raw:?}");
        }
    }

    #[test]
    fn broken_chunks_are_refused() {
        let long = format!("5;{}\r\nhello\r\n", "x".repeat(5000));
        let trailers = format!("0\r\n{}\r\n", "X: 1\r\n".repeat(100));
        for raw in [
            &b"x\r\n"[..],
            b"\r\n",
            b"-1\r\n",
            b"+5\r\nhello\r\n",
            b"5 5\r\nhello\r\n",
            b"ffffffffffffffff\r\n",
            b"5\r\nhelloo\r\n",
            long.as_bytes(),
            trailers.as_bytes(),
        ] {
            assert!(matches!(run(raw, &[7]), Err(Fault::Protocol(_))), "{raw:?}");
        }
    }

    #[test]
    fn extensions_may_not_outweigh_the_body() {
        let chunk = |extension: usize| format!("1;{}\r\nx\r\n", "e".repeat(extension));
        let run_chunks = |extension, count| run(chunk(extension).repeat(count).as_bytes(), &[500]);
        assert!(run_chunks(18, 20_000).is_ok());
        assert!(run_chunks(1000, 60).is_ok());
        assert!(matches!(run_chunks(1000, 70), Err(Fault::Protocol(_))));
        let large = format!("1000;{}\r\n{}\r\n", "e".repeat(4000), "x".repeat(4096));
        assert!(run(large.repeat(100).as_bytes(), &[9000]).is_ok());
    }

    proptest! {
        #[test]
        fn splits_do_not_matter(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            tail in prop::collection::vec(any::<u8>(), 0..10),
            cuts in prop::collection::vec(1usize..20, 1..30),
        ) {
            let mut raw = Vec::new();
            for part in &parts {
                raw.extend(format!("{:X};e\r\n", part.len()).bytes());
                raw.extend(part);
                raw.extend(b"\r\n");
            }
            raw.extend(b"0\r\nT: 1\r\n\r\n");
            raw.extend(&tail);
            let (body, ended, rest) = run(&raw, &cuts).unwrap();
            prop_assert!(ended);
            prop_assert_eq!(body, parts.concat());
            prop_assert_eq!(rest, tail);
        }

        #[test]
        fn no_bytes_make_it_panic(
            raw in prop::collection::vec(prop::sample::select(b"0159afF;\r\n x".to_vec()), 0..200),
            cut in 1usize..20,
        ) {
            let _ = run(&raw, &[cut]);
        }
    }
}
