//! The awc clients that keep connections.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsConnector;
use url::Url;

use super::super::dial::Dial;
use super::super::egress::Egress;
use super::super::network::Network;
use super::super::notes::Slot;
use crate::settings::ExchangeSettings;

/// Idle connections that are kept; above it all are closed. awc itself never closes an idle connection.
pub(super) const MAX_IDLE: usize = 64;

/// An idle connection older than this is not used again.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Even a busy connection is replaced after this, so that a change in DNS is followed.
const LIFETIME: Duration = Duration::from_secs(600);

/// What every connection of a client is made with.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) settings: ExchangeSettings,
    pub(super) slot: Slot,
    pub(super) tls: TlsConnector,
    /// For egresses that check no certificates, where there is one.
    pub(super) unverified: Option<TlsConnector>,
    pub(super) open: Rc<Cell<usize>>,
    pub(super) network: Network,
}

/// Pools by egress: awc's pool knows nothing of proxies, and one account must not be seen on another's connection.
#[derive(Default)]
pub(super) struct AllPools(HashMap<Option<Arc<str>>, Pools>);

impl AllPools {
    /// The pools of an egress; `None`: of the direct way.
    pub(super) fn of(&mut self, parts: &Parts, egress: Option<&Arc<Egress>>) -> Pools {
        let name = egress.map(|egress| Arc::clone(egress.name()));
        let new = || Pools::new(parts, egress);
        self.0.entry(name).or_insert_with(new).clone()
    }

    /// Forgets all pools: their idle connections are closed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Plain and TLS apart: awc's pool tells connections by authority only.
#[derive(Clone)]
pub(super) struct Pools {
    plain: awc::Client,
    tls: awc::Client,
}

impl Pools {
    pub(super) fn new(parts: &Parts, egress: Option<&Arc<Egress>>) -> Self {
        let client = |tls: Option<&TlsConnector>| {
            let max_head = parts.settings.max_header_bytes;
            let dial = Dial {
                slot: parts.slot.clone(),
                tls: tls.cloned(),
                max_head: usize::try_from(max_head).unwrap_or(usize::MAX),
                open: Rc::clone(&parts.open),
                network: parts.network.clone(),
                egress: egress.cloned(),
            };
            let connector = awc::Connector::new()
                .connector(dial)
                .limit(0)
                .timeout(parts.settings.connect_timeout)
                .conn_keep_alive(KEEP_ALIVE)
                .conn_lifetime(LIFETIME);
            awc::Client::builder()
                .connector(connector)
                .no_default_headers()
                .disable_redirects()
                .disable_timeout()
                .finish()
        };
        let verify = egress.is_none_or(|egress| egress.tls_verify);
        let tls = match &parts.unverified {
            Some(unverified) if !verify => unverified,
            _ => &parts.tls,
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
