//! Arguments of the sample service and the load generator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Parser;

use super::{Output, duration};

/// Run a small HTTP service that uses CPU for each request
///
/// Every path uses CPU and responds with a line of text, except: /healthz (200 while it runs), /readyz (200 while it accepts requests), /stats
/// (requests per second and in flight, as JSON) and /metrics (the same for Prometheus). After SIGTERM it finishes requests in progress and exits.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  plimsoll sample-service                                   listen on port 8080, or on $PORT
  plimsoll sample-service --listen 127.0.0.1:9000 --cpu-per-request 25ms
  plimsoll load http://127.0.0.1:9000 --rate 20 --for 10s   send requests to it")]
pub(crate) struct SampleService {
    /// Address to listen on; port 0 picks a free port [default: all addresses, and port $PORT or 8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    #[arg(long, env = "PORT", hide = true, default_value_t = 8080)]
    pub(crate) port: u16,
    /// CPU time that each request uses
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = duration)]
    pub(crate) cpu_per_request: Duration,
    /// Time from the start until /readyz responds with 200
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) ready_after: Duration,
    /// Time from SIGTERM during which new requests are still accepted, so that load balancers can stop sending them
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub(crate) shutdown_delay: Duration,
}

impl SampleService {
    /// Returns the address to listen on.
    pub(crate) fn address(&self) -> SocketAddr {
        let everywhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), self.port);
        self.listen.unwrap_or(everywhere)
    }
}

/// Send requests to a URL at a steady rate, and print a summary
///
/// Latency is measured from the time at which a request was due: a server that cannot keep up has a higher latency, not a lower rate.
/// The exit code is 1 if a request failed: no response, or a status other than 2xx.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  plimsoll load http://127.0.0.1:8080
  plimsoll load http://127.0.0.1:8080 --rate 200 --for 1m --concurrency 32 -o json")]
pub(crate) struct Load {
    /// URL, beginning with http:// or https://
    pub(crate) url: String,
    /// Requests per second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// How long to send requests
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) run_for: Duration,
    /// Maximum number of requests in flight
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// Timeout for a response
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
