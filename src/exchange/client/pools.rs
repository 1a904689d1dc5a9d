//! The awc clients that keep connections.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use url::Url;

use super::super::dial::Dial;
use super::super::notes::Slot;
use crate::settings::ExchangeSettings;

/// Idle connections that are kept; above it all are closed. awc itself never closes an idle connection.
pub(super) const MAX_IDLE: usize = 64;

/// An idle connection older than this is not used again.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Even a busy connection is replaced after this, so that a change in DNS is followed.
const LIFETIME: Duration = Duration::from_secs(600);

/// Plain and TLS apart: awc's pool tells connections by authority only.
#[derive(Clone)]
pub(super) struct Pools {
    plain: awc::Client,
    tls: awc::Client,
}

impl Pools {
    pub(super) fn new(
        settings: &ExchangeSettings,
        slot: &Slot,
        tls: &tokio_rustls::TlsConnector,
        open: &Rc<Cell<usize>>,
    ) -> Self {
        let client = |tls: Option<&tokio_rustls::TlsConnector>| {
            let max_head = settings.max_header_bytes;
            let dial = Dial {
                slot: slot.clone(),
                tls: tls.cloned(),
                max_head: usize::try_from(max_head).unwrap_or(usize::MAX),
                open: Rc::clone(open),
            };
            let connector = awc::Connector::new()
                .connector(dial)
                .limit(0)
                .timeout(settings.connect_timeout)
                .conn_keep_alive(KEEP_ALIVE)
                .conn_lifetime(LIFETIME);
            awc::Client::builder()
                .connector(connector)
                .no_default_headers()
                .disable_redirects()
                .disable_timeout()
                .finish()
        };
        Self {
            plain: client(None),
            tls: client(Some(tls)),
        }
    }

    /// The client for a URL's scheme.
    pub(super) fn of(&self, url: &Url) -> &awc::Client {
        match url.scheme() {
            "https" => &self.tls,
            _ => &self.plain,
        }
    }
}
