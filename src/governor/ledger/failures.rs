//! The share of failures among recent answers, with a bound of confidence: a few bad answers of a server that
//! mostly works must decide nothing.

/// A share of failures with exponentially fading memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailureShare {
    samples: f64,
    failures: f64,
}

impl FailureShare {
    /// An answer came, or failed to come. `memory`: the weight of the past, below 1; it remembers about
    /// 1 / (1 − memory) answers.
    pub(crate) fn count(&mut self, failed: bool, memory: f64) {
        self.samples = self.samples * memory + 1.0;
        self.failures = self.failures * memory + if failed { 1.0 } else { 0.0 };
    }

    /// Whether the share is above `share` with confidence, by at least `least` samples.
    pub(crate) fn surely_above(self, share: f64, least: f64) -> bool {
        self.samples >= least && self.lower_bound() > share
    }

    /// Wilson's lower bound of the share at 95 %.
    fn lower_bound(self) -> f64 {
        const Z: f64 = 1.96;
        let n = self.samples;
        let p = self.failures / n;
        let centre = p + Z * Z / (2.0 * n);
        let margin = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).max(0.0).sqrt();
        (centre - margin) / (1.0 + Z * Z / n)
    }
}
