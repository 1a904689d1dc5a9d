//! The ways out: direct, or through proxies that can expire, fail, and be limited.

mod book;
mod choice;
mod ways;

use std::fmt;
use std::sync::Arc;

use url::Url;

use crate::settings::{EgressSettings, Secret};

pub(super) use self::ways::Ways;
pub use self::ways::{EgressCounts, Offer, Slot, Wanted};

/// The name of the way without a proxy.
pub const DIRECT: &str = "direct";

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP CONNECT; the proxy looks names up.
    Http,
    /// SOCKS5; names are looked up here.
    Socks5,
    /// SOCKS5; the proxy looks names up.
    Socks5h,
}

/// Who we are to a proxy.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    pub(super) username: String,
    pub(super) password: Secret,
}

/// A proxy.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) protocol: Protocol,
    /// A name, or a literal address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) credentials: Option<Credentials>,
}

/// One way out.
pub struct Egress {
    pub(super) name: Arc<str>,
    /// `None`: straight to the server.
    pub(super) proxy: Option<Proxy>,
    /// Whether certificates of servers are checked.
    pub(super) tls_verify: bool,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Egress").field(&self.name).finish()
    }
}

impl Egress {
    /// The way of settings. Of a URL that settings would refuse nothing is known: `None`.
    fn of(name: &str, settings: &EgressSettings) -> Option<Self> {
        let url = Url::parse(settings.url.as_deref()?).ok()?;
        let (protocol, port) = match url.scheme() {
            "http" => (Protocol::Http, 80),
            "socks5" => (Protocol::Socks5, 1080),
            "socks5h" => (Protocol::Socks5h, 1080),
            _ => return None,
        };
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        let credentials = settings.username.as_ref().map(|username| Credentials {
            username: username.clone(),
            password: settings.password.clone().unwrap_or_default(),
        });
        Some(Self {
            name: name.into(),
            proxy: Some(Proxy {
                protocol,
                host,
                port: url.port().unwrap_or(port),
                credentials,
            }),
            tls_verify: settings.tls_verify,
        })
    }

    fn direct() -> Self {
        Self {
            name: DIRECT.into(),
            proxy: None,
            tls_verify: true,
        }
    }

    /// Its name in the settings.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}
