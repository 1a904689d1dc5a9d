//! The request on its way out, and an answer that does not wait for its end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{State, Wire};

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// A server may answer before it has read the request, and read no more of it. awc reads nothing before all is
    /// written: so the answer is looked for here, while a write has to wait.
    fn answered_early(&mut self, cx: &mut Context<'_>) -> bool {
        while matches!(self.state, State::Head { .. }) {
            match self.step() {
                Ok(true) => {}
                Ok(false) => match self.read_input(cx) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    // The end and errors are met again by who reads.
                    Poll::Ready(_) => return true,
                    Poll::Pending => return false,
                },
                Err(fault) => {
                    self.fail(fault);
                }
            }
        }
        true
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.deaf {
            return Poll::Ready(Ok(buf.len()));
        }
        if matches!(this.state, State::Idle) {
            this.begin(buf);
        }
        match Pin::new(&mut this.stream).poll_write(cx, buf) {
            Poll::Ready(Err(_)) => {
                // Perhaps the server has said why before it closed: reading gives that, or the end.
                this.deaf = true;
                Poll::Ready(Ok(buf.len()))
            }
            Poll::Pending => {
                // The head it finds is announced with `close`, as no request can follow half a one.
                this.deaf = true;
                this.deaf = this.answered_early(cx);
                match this.deaf {
                    true => Poll::Ready(Ok(buf.len())),
                    false => Poll::Pending,
                }
            }
            done => done,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
