//! Which egress an exchange takes, and what an egress is told of it.

use std::sync::Arc;
use std::time::Duration;

use slog::{info, warn};
use tokio::time::Instant;

use super::context::{Assignment, Context};
use super::permit::NoPermit;
use crate::exchange::{Egress, ExchangePermit, Fault, FetchError, Offer, Slot, Wanted};
use crate::governor::{Hints, Permit, Receipt};
use crate::model::{AccountKey, Answer, Outcome};

/// Waits this long before it looks again at egresses of which none will ever work: longer than any `max_wait`.
const NEVER: Duration = Duration::from_secs(31 * 86_400);

/// A permit and the place in an egress that its exchange takes. Both are given back at once.
pub(super) struct Routed {
    pub(super) permit: Permit,
    pub(super) slot: Option<Slot>,
}

impl ExchangePermit for Routed {
    type Receipt = Receipt;

    fn egress(&self) -> Option<&Arc<Egress>> {
        self.slot.as_ref().map(Slot::egress)
    }

    fn deadline(&self) -> Instant {
        self.permit.deadline()
    }

    fn refused(&self, outcome: Outcome, hints: Hints) {
        self.permit.refused(outcome, hints);
    }

    fn release(self, used: bool) -> Receipt {
        self.permit.release(used)
    }
}

/// Whose address must not change: a session that is seen from several looks stolen. Without one there is nobody.
fn account(context: &Context) -> Option<&'static str> {
    context.session.as_ref().map(|_| AccountKey::DEFAULT)
}

/// Waits for an egress with room, of those that are not `tried`. `Ok(None)`: the site goes straight to its servers.
pub(super) async fn choose(
    context: &Context,
    tried: &[Arc<str>],
) -> Result<Option<Arc<str>>, NoPermit> {
    let assignment = &context.assignment;
    let site = assignment.site.name();
    let among = assignment.settings.egress_of(site);
    if among.is_empty() {
        return Ok(None);
    }
    let network = &assignment.network;
    for egress in network.newly_expired(among) {
        warn!(assignment.log, "an egress has expired"; "egress" => &*egress);
    }
    let mut stopping = context.stopping.clone();
    loop {
        // Made before the look, so that what is freed after it is not missed.
        let freed = network.freed();
        let wanted = Wanted {
            site,
            account: account(context),
            among,
            tried,
        };
        let wait = match network.offer(wanted) {
            Offer::Go(egress) => return Ok(Some(egress)),
            Offer::Wait(wait) => wait,
            Offer::Down(due) => {
                let wait = due.unwrap_or(NEVER);
                if wait > context.patience() {
                    context.no_way(format!("no egress of {site} works: {}", among.join(", ")));
                    return Err(NoPermit::Later(wait));
                }
                Some(wait)
            }
        };
        let due = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return Err(NoPermit::Stopping),
            () = freed => {}
            () = due => {}
        }
    }
}

/// Whether another egress is left for an exchange that `tried` have failed.
pub(super) fn is_another(context: &Context, tried: &[Arc<str>]) -> bool {
    let assignment = &context.assignment;
    let site = assignment.site.name();
    let wanted = Wanted {
        site,
        account: account(context),
        among: assignment.settings.egress_of(site),
        tried,
    };
    !matches!(assignment.network.offer(wanted), Offer::Down(_))
}

/// Whether an exchange without an answer is put down to its egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// It has answered, or the site or nobody is to blame.
    No,
    /// The egress, and the server was not asked.
    Unasked,
    /// The egress, and the server may have been asked.
    Asked,
}

/// The exchange with `host` through `egress` came to `result`.
pub(super) fn heard(
    context: &Context,
    egress: Option<&Arc<str>>,
    host: &str,
    result: &Result<Answer, FetchError>,
) -> Blame {
    let Some(egress) = egress else {
        return Blame::No;
    };
    let Assignment { network, log, .. } = &context.assignment;
    let fault = match result {
        Ok(_) => {
            network.worked(egress, host);
            return Blame::No;
        }
        Err(error) => &error.fault,
    };
    let (blame, why) = match fault {
        Fault::Proxy { why, .. } => (Blame::Unasked, why.clone()),
        Fault::Connect(why) if network.unreached(egress, host) => (
            Blame::Unasked,
            format!("{host} was not reached, and another egress works: {why}"),
        ),
        Fault::Disconnected { reused: false } | Fault::Truncated { .. }
            if network.is_doubtful(egress) =>
        {
            (Blame::Asked, format!("the tunnel broke: {fault}"))
        }
        // It has led to the server.
        Fault::Tls(_) | Fault::HeadTimeout | Fault::Protocol(_) => {
            network.worked(egress, host);
            return Blame::No;
        }
        // A tunnel that broke, or nothing was asked: no word of the egress.
        _ => return Blame::No,
    };
    match network.failed(egress, &why) {
        Some(pause) => {
            warn!(log, "an egress is left alone"; "egress" => &**egress, "why" => why,
                "for" => %humantime::format_duration(Duration::from_secs(pause.as_secs())));
        }
        None => info!(log, "an egress failed"; "egress" => &**egress, "why" => why),
    }
    blame
}
