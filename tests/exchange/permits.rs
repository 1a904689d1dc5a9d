//! A permit is given back exactly once, and as early as the design says.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crawler_node::exchange::Client;
use crawler_node::model::Request;
use tokio::sync::oneshot;

use crate::bodies::encoded;
use crate::encoders::gzip;
use crate::support::{
    Reply, Server, TestPermit, Then, client, exchange, in_pieces, ok, reply, settings, within,
};

#[actix_rt::test]
async fn released_before_the_last_piece_of_the_body_is_decoded() {
    // Arrives in one piece, and takes several turns to decode.
    let noise = (0u32..100).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes());
    let data: Vec<u8> = noise.chain(std::iter::repeat_n(0, 1_399_600)).collect();
    let body = gzip(&data);
    assert!(body.len() < 4000, "{}", body.len());
    let server = Server::start(vec![reply(encoded("gzip", &body), Then::Keep)]).await;
    let client = client(&settings());
    let permit = TestPermit::new();
    let released = Rc::clone(&permit.released);
    let request = Request::get(server.url("/"));
    let mut running = pin!(client.exchange(permit, &request));
    let mut pending_after_release = 0;
    let exchanged = within(poll_fn(|cx| {
        let polled = running.as_mut().poll(cx);
        if polled.is_pending() && !released.borrow().is_empty() {
            pending_after_release += 1;
        }
        polled
    }))
    .await;
    assert_eq!(exchanged.result.unwrap().body.len(), 1_400_000);
    assert!(pending_after_release > 0);
    assert_eq!(*released.borrow(), [true]);
}

#[actix_rt::test]
async fn released_once_whatever_comes() {
    let mut settings = settings();
    settings.head_timeout = Duration::from_millis(50);
    settings.max_body_bytes = 1000;
    let replies: [Reply; 8] = [
        ok("fine"),
        reply("", Then::Close),
        reply("", Then::Hang),
        reply("GARBAGE", Then::Close),
        reply(
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            Then::Reset,
        ),
        reply(
            "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
            Then::Hang,
        ),
        reply(encoded("br", b"abc"), Then::Keep),
        in_pieces(encoded("gzip", &gzip(&[0; 5000])), 5, Then::Keep),
    ];
    for answer in replies {
        let server = Server::start(vec![answer]).await;
        let permit = TestPermit::new();
        let released = Rc::clone(&permit.released);
        let request = Request::get(server.url("/"));
        let exchanged = within(client(&settings).exchange(permit, &request)).await;
        assert!(exchanged.receipt);
        assert_eq!(*released.borrow(), [true]);
    }
}

#[actix_rt::test]
async fn a_dropped_exchange_closes_its_connection() {
    let server = Server::start(vec![reply("HTTP/1.1 200 OK\r\n\r\nabc", Then::Hang)]).await;
    let client: Rc<Client> = Rc::new(client(&settings()));
    let (stop, stopped) = oneshot::channel::<()>();
    let request = Request::get(server.url("/"));
    let permit = TestPermit::new();
    let released = Rc::clone(&permit.released);
    {
        let mut running = pin!(client.exchange(permit, &request));
        let mut stop = Some(stop);
        let mut stopped = pin!(stopped);
        within(poll_fn(|cx| {
            assert!(running.as_mut().poll(cx).is_pending());
            if client.open_connections() == 1
                && let Some(stop) = stop.take()
            {
                let _ = stop.send(());
            }
            stopped.as_mut().poll(cx).map(drop)
        }))
        .await;
    }
    assert_eq!(client.open_connections(), 0);
    assert!(
        released.borrow().is_empty(),
        "a dropped permit is its guard's business"
    );
    let _: Poll<()> = Poll::Ready(());
}

#[actix_rt::test]
async fn idle_connections_are_bounded() {
    let client = client(&settings());
    let mut servers = Vec::new();
    for _ in 0..150 {
        let server = Server::start(vec![ok("x")]).await;
        exchange(&client, server.url("/")).await.result.unwrap();
        servers.push(server);
        assert!(client.open_connections() <= 66);
    }
}
