//! Takes connections, and bounds how long a client may take over the head of a request.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Pause after the system had no connection to give: too many files are open, and some will be closed.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves connections until `closed`, then lets the ones that carry a request finish. A connection whose next
/// head is not whole after `head` is closed: clients that send nothing must not use up the files of the process.
pub(super) async fn accept(
    listener: TcpListener,
    router: Router,
    head: Duration,
    closed: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let open = GracefulShutdown::new();
    let mut closed = pin!(closed);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut closed => break,
            accepted = next(&listener) => accepted,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A client that goes away or speaks no HTTP is no event.
            let _ = connection.await;
        });
    }
    drop(listener);
    open.shutdown().await;
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Tokens are small: without this they wait for acknowledgements. A failure costs latency only.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) if of_the_client(&error) => {}
            Err(error) => {
                tracing::warn!(target: "forkcast::serve", %error, "no connection could be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn of_the_client(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}
