//! Encoders of every coding, and bombs.

use std::io::Write;

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compress, Compression, FlushCompress};

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn bare_deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn brotli(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 2, 20);
    encoder.write_all(data).unwrap();
    drop(encoder);
    out
}

pub(crate) fn zstd(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(data.len())];
    let length = zstd_safe::compress(&mut out[..], data, 3).unwrap();
    out.truncate(length);
    out
}

/// Zeros that one repetition of a bomb stands for.
const MEBI: usize = 1024 * 1024;

/// 10 GB of zeros come from so many repetitions.
const TIMES: usize = 10_000_000_000 / MEBI + 1;

/// A gzip member of 10 GB of zeros, in 10 MB.
pub(crate) fn gzip_bomb() -> Vec<u8> {
    let mut block = vec![0; 4096];
    let mut deflate = Compress::new(Compression::best(), false);
    deflate
        .compress(&vec![0; MEBI], &mut block, FlushCompress::Full)
        .unwrap();
    assert_eq!(deflate.total_in(), MEBI as u64);
    block.truncate(usize::try_from(deflate.total_out()).unwrap());
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    // An empty last block; nobody gets as far as the trailer.
    [&head[..], &block.repeat(TIMES), &[3, 0], &[0; 8]].concat()
}

/// A Brotli stream of 10 GB of zeros.
pub(crate) fn brotli_bomb() -> Vec<u8> {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 2, 22);
    let mut lengths = Vec::new();
    for _ in 0..3 {
        encoder.write_all(&vec![0; MEBI]).unwrap();
        encoder.flush().unwrap();
        lengths.push(encoder.get_ref().len());
    }
    let out = encoder.get_ref().clone();
    // From the second on every repetition is written alike.
    let (start, block) = (&out[..lengths[0]], &out[lengths[1]..lengths[2]]);
    [start, &block.repeat(TIMES), &[3]].concat()
}

/// zstd frames of 10 GB of zeros.
pub(crate) fn zstd_bomb() -> Vec<u8> {
    zstd(&vec![0; MEBI]).repeat(TIMES)
}
