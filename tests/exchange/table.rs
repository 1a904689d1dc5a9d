//! Every row of the table of cases, over real sockets, with awc alone beside it.

use std::time::Duration;

use crawler_node::exchange::Fault;
use crawler_node::settings::ExchangeSettings;
use url::Url;

use crate::cases::{Case, all};
use crate::support::{Server, Then, client, get, in_pieces, ok, reply, settings};
use crate::tls::{Authority, authority};

/// How long awc alone is waited for where it is said to hang; it must not have ended by then.
const HANG: Duration = Duration::from_millis(300);

/// How long it is waited for elsewhere.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the server says to the request after the case's own.
const NEXT: &str = "the next answer";

/// A cell of the table.
fn cell(case: &Case, first: Result<(u16, Vec<u8>), String>, next: &str) -> String {
    match first {
        Err(error) if next == "closed" => error,
        Err(error) => format!("{error}; {next}"),
        Ok((status, body)) => {
            let bytes = match body {
                _ if body == case.meant && body.is_empty() => "no body",
                _ if body == case.meant => "whole",
                _ if body.is_empty() => "empty",
                _ if case.meant.starts_with(&body) => "part",
                _ => "wrong bytes",
            };
            let status = if status == 200 {
                String::new()
            } else {
                format!("{status}, ")
            };
            format!("{status}{bytes}; {next}")
        }
    }
}

/// What became of the connection, as the next answer tells.
fn connection(server: &Server, next: Option<&[u8]>) -> &'static str {
    match (next, server.connections()) {
        (Some(body), 1) if body == NEXT.as_bytes() => "kept",
        (Some(body), _) if body == NEXT.as_bytes() => "closed",
        (Some(_), _) => "**the next answer is wrong**",
        (None, _) => "**the next answer is lost**",
    }
}

async fn bare_get(client: &awc::Client, server: &Server) -> Result<(u16, Vec<u8>), String> {
    let error = |_: &dyn std::fmt::Display| "error".to_owned();
    let sent = client.get(server.url("/").as_str()).send().await;
    let mut answer = sent.map_err(|e| error(&e))?;
    let body = answer.body().await.map_err(|e| error(&e))?;
    Ok((answer.status().as_u16(), body.to_vec()))
}

/// The cell of awc alone.
async fn bare(case: &Case) -> String {
    let server = Server::start(vec![reply(&case.bytes, case.then), ok(NEXT)]).await;
    let client = awc::Client::builder()
        .disable_redirects()
        .disable_timeout()
        .finish();
    // Where it is said to end, it is given all the time it needs.
    let hangs = case.awc.contains("hangs") || case.awc.contains("lost");
    let patience = if hangs { HANG } else { PATIENCE };
    // A task of its own: awc panics on some answers.
    let first = actix_rt::spawn({
        let (client, server) = (client.clone(), server.clone());
        async move { tokio::time::timeout(patience, bare_get(&client, &server)).await }
    });
    let first = match first.await {
        Ok(Ok(first)) => first,
        Ok(Err(_)) => Err("hangs".to_owned()),
        Err(_) => Err("**panics**".to_owned()),
    };
    let mut next = tokio::time::timeout(patience, bare_get(&client, &server)).await;
    // The close may come a moment too late to be seen.
    if matches!(next, Ok(Err(_))) {
        next = tokio::time::timeout(patience, bare_get(&client, &server)).await;
    }
    let next = next.ok().and_then(Result::ok).map(|(_, body)| body);
    cell(case, first, connection(&server, next.as_deref()))
}

fn name(fault: &Fault) -> String {
    let debug = format!("{fault:?}");
    let name = debug.split([' ', '(', '{']).next().unwrap_or_default();
    format!("`{name}`")
}

/// The settings under which a case is run: short clocks where one has to end it.
pub(crate) fn settings_of(case: &Case) -> ExchangeSettings {
    let mut settings = settings();
    if case.then == Then::Hang {
        let short = Duration::from_millis(100);
        settings.first_byte_timeout = short;
        settings.head_timeout = 2 * short;
        settings.idle_timeout = short;
    }
    settings
}

/// Two requests, one after the other, and the cell that they make.
async fn ask(case: &Case, settings: &ExchangeSettings, server: &Server, url: Url) -> String {
    let client = client(settings);
    let first = get(&client, url.clone()).await;
    let first = first.map(|answer| (answer.status, answer.body.to_vec()));
    let mut next = get(&client, url.clone()).await;
    // The close may come a moment too late to be seen: that is told apart, and asked again.
    if matches!(next, Err(Fault::Disconnected { reused: true })) {
        next = get(&client, url).await;
    }
    let next = next.as_ref().ok().map(|answer| answer.body.as_ref());
    cell(
        case,
        first.map_err(|fault| name(&fault)),
        connection(server, next),
    )
}

/// The cell of the exchange; `piece` is how many bytes the server writes at once.
async fn ours(case: &Case, piece: usize) -> String {
    let first = in_pieces(&case.bytes, piece, case.then);
    let server = Server::start(vec![first, ok(NEXT)]).await;
    ask(case, &settings_of(case), &server, server.url("/")).await
}

/// As [`ours`], over TLS.
async fn ours_in_tls(case: &Case, authority: &Authority) -> String {
    let replies = vec![reply(&case.bytes, case.then), ok(NEXT)];
    let server = Server::start_with(replies, Some(authority.acceptor.clone())).await;
    let mut settings = settings_of(case);
    settings.ca_file = Some(authority.file.path().to_owned());
    ask(
        case,
        &settings,
        &server,
        crate::tls::url(&server, "localhost"),
    )
    .await
}

/// Whether only TLS shows what the case is about.
fn only_in_tls(case: &Case) -> bool {
    case.then == Then::Cut
}

/// Asserts that every cell is what `expected` says.
fn assert_cells(seen: Vec<(Case, String)>, expected: impl Fn(&Case) -> &'static str) {
    let wrong: Vec<_> = seen
        .iter()
        .filter(|(case, cell)| cell != expected(case))
        .map(|(case, cell)| format!("{}: {cell}, not {}", case.name, expected(case)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[actix_rt::test]
async fn the_exchange_makes_of_every_case_what_its_row_says() {
    let mut seen = Vec::new();
    for case in all().into_iter().filter(|case| !only_in_tls(case)) {
        let cell = ours(&case, usize::MAX).await;
        seen.push((case, cell));
    }
    assert_cells(seen, |case| case.ours);
}

#[actix_rt::test]
async fn the_same_in_pieces_of_any_size() {
    for piece in [1, 2, 7, 1000] {
        let mut seen = Vec::new();
        // Large ones in large pieces only: each piece is a system call on either side. What follows an answer and comes
        // after the next request has left cannot be told from an answer to it.
        let small = |case: &Case| case.bytes.len() <= 1000 * piece && !case.trailing;
        for case in all()
            .into_iter()
            .filter(|case| small(case) && !only_in_tls(case))
        {
            let cell = ours(&case, piece).await;
            seen.push((case, cell));
        }
        assert_cells(seen, |case| case.ours);
    }
}

#[actix_rt::test]
async fn the_same_over_tls() {
    let authority = authority();
    let mut seen = Vec::new();
    for case in all() {
        let cell = ours_in_tls(&case, &authority).await;
        seen.push((case, cell));
    }
    assert_cells(seen, |case| case.ours);
}

#[actix_rt::test]
async fn awc_alone_makes_of_every_case_what_its_row_says() {
    let mut seen = Vec::new();
    for case in all().into_iter().filter(|case| !only_in_tls(case)) {
        let cell = bare(&case).await;
        seen.push((case, cell));
    }
    assert_cells(seen, |case| case.awc);
}

/// The table as `docs/exchange.md` has to have it.
fn table() -> String {
    let mut rows = vec![
        "| what the server sends | awc alone | the exchange | curl, where it differs |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    rows.extend(all().iter().map(|case| {
        let curl = case.curl.unwrap_or("");
        let row = format!("| {} | {} | {} | {curl} |", case.name, case.awc, case.ours);
        row.replace("|  |", "| |")
    }));
    rows.join("\n")
}

#[test]
fn the_table_of_the_documents_is_the_table_of_the_cases() {
    let cases = all();
    assert!(cases.len() >= 60);
    let mut names: Vec<_> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len(), "a name is used twice");
    let path = "docs/exchange.md";
    let text = std::fs::read_to_string(path).unwrap();
    assert!(
        text.contains(&table()),
        "{path} has to have this table:\n\n{}\n",
        table()
    );
}
