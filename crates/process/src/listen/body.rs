//! The bodies of requests and answers, with what is held or bounded while they are on their way.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use super::connections::UnderWay;

/// The body of a request. It fails when it takes too long.
#[derive(Debug)]
pub struct RequestBody {
    inner: Incoming,
    /// The longest it may take. The time starts at the first poll.
    within: Option<Duration>,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It took too long.
    #[error("the body of the request did not arrive within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The connection broke, or what came is no HTTP.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, within: Option<Duration>) -> Self {
        Self { inner, within, deadline: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let Some(within) = self.within else { return Poll::Pending };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::TooSlow(within))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer: its request is under way until it has been sent.
pub(super) struct ResponseBody<B> {
    inner: B,
    _under_way: UnderWay,
}

impl<B> ResponseBody<B> {
    pub(super) fn new(inner: B, under_way: UnderWay) -> Self {
        Self { inner, _under_way: under_way }
    }
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
