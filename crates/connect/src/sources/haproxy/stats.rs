//! HAProxy's statistics, as CSV and as its Prometheus exporter writes them.

use std::collections::BTreeMap;

/// The two sides of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Frontend,
    Backend,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Backend => "backend",
        }
    }

    /// Returns the name of the row with the sums.
    fn row(self) -> &'static str {
        match self {
            Self::Frontend => "FRONTEND",
            Self::Backend => "BACKEND",
        }
    }
}

/// Rates, and the counters that they are the rates of.
const RATES: [(&str, &str); 3] =
    [("req_rate", "req_tot"), ("rate", "stot"), ("conn_rate", "conn_tot")];

/// Columns of the CSV by the name that the exporter has for them.
const EXPORTED: [(&str, &str); 12] = [
    ("http_requests_total", "req_tot"),
    ("sessions_total", "stot"),
    ("connections_total", "conn_tot"),
    ("current_sessions", "scur"),
    ("current_queue", "qcur"),
    ("limit_sessions", "slim"),
    ("bytes_in_total", "bin"),
    ("bytes_out_total", "bout"),
    ("connection_errors_total", "econ"),
    ("queue_time_average_seconds", "qtime"),
    ("response_time_average_seconds", "rtime"),
    ("total_time_average_seconds", "ttime"),
];

/// Returns the counter that belongs to a rate.
pub(super) fn counter_of(column: &str) -> Option<&'static str> {
    RATES.iter().find(|(rate, _)| *rate == column).map(|(_, counter)| *counter)
}

/// The cells of a frontend or backend by column.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    cells: BTreeMap<String, String>,
    /// Whether cells that are absent may be there in another form: the exporter has no rates.
    is_partial: bool,
}

impl Row {
    /// Returns the number in a column; `None` where the cell is empty.
    pub(super) fn number(&self, column: &str) -> Result<Option<f64>, String> {
        match self.cells.get(column).map(String::as_str) {
            Some("") => Ok(None),
            Some(text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                Ok(_) | Err(_) => {
                    Err(format!("`{text}` in the column `{column}`; expected a number"))
                }
            },
            None if self.is_partial && counter_of(column).is_some() => Ok(None),
            None => Err(format!("no column `{column}`")),
        }
    }
}

/// Finds a row in CSV.
pub(super) fn from_csv(text: &str, side: Side, proxy: &str) -> Result<Option<Row>, String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let header = lines.next().unwrap_or_default();
    let Some(header) = header.strip_prefix("# ").filter(|header| header.starts_with("pxname,"))
    else {
        let start: String = header.chars().take(80).collect();
        return Err(format!("something other than HAProxy's statistics: `{start}`"));
    };
    let columns = split(header);
    for line in lines {
        let cells = split(line);
        if cells.first().is_some_and(|name| name == proxy)
            && cells.get(1).is_some_and(|row| row == side.row())
        {
            let cells = columns.iter().cloned().zip(cells).collect();
            return Ok(Some(Row { cells, is_partial: false }));
        }
    }
    Ok(None)
}

/// Splits a line of CSV, in which quotes protect commas and are doubled inside.
fn split(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut().expect("there is always a cell");
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    cells
}

/// Finds a row in what the Prometheus exporter wrote.
pub(super) fn from_exporter(text: &str, side: Side, proxy: &str) -> Result<Option<Row>, String> {
    let prefix = format!("haproxy_{}_", side.name());
    let label = format!("{{proxy=\"{}\"}}", proxy.replace('\\', "\\\\").replace('"', "\\\""));
    let mut cells = BTreeMap::new();
    let mut is_haproxy = false;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        is_haproxy |= line.starts_with("haproxy_");
        let Some(line) = line.strip_prefix(&prefix) else { continue };
        let Some((name, value)) = line.split_once(label.as_str()) else { continue };
        if let Some((_, column)) = EXPORTED.iter().find(|(exported, _)| *exported == name) {
            let value = value.split_whitespace().next().unwrap_or_default();
            cells.insert((*column).to_owned(), value.to_owned());
        }
    }
    if !is_haproxy {
        return Err("something other than HAProxy's metrics".to_owned());
    }
    Ok((!cells.is_empty()).then_some(Row { cells, is_partial: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "# pxname,svname,scur,last_chk,req_rate,req_tot,\n\
        web,FRONTEND,3,,12,400,\nweb,s1,1,\"L7OK, \"\"fine\"\"\",,,\nweb,BACKEND,2,,,399,\n\n";

    #[test]
    fn cells_are_found_by_the_names_of_proxy_and_column() {
        let row = |side, proxy| from_csv(CSV, side, proxy).unwrap();
        let frontend = row(Side::Frontend, "web").unwrap();
        assert_eq!(frontend.number("req_rate"), Ok(Some(12.0)));
        assert_eq!(frontend.number("scur"), Ok(Some(3.0)));
        assert_eq!(row(Side::Backend, "web").unwrap().number("req_rate"), Ok(None));
        assert_eq!(row(Side::Backend, "db"), None);
        assert_eq!(frontend.number("age"), Err("no column `age`".to_owned()));
        assert_eq!(
            frontend.number("svname"),
            Err("`FRONTEND` in the column `svname`; expected a number".to_owned())
        );
        assert_eq!(split("web,s1,1,\"L7OK, \"\"fine\"\"\",")[3], "L7OK, \"fine\"");
        let page = from_csv("<html>", Side::Frontend, "web").unwrap_err();
        assert_eq!(page, "something other than HAProxy's statistics: `<html>`");
    }

    #[test]
    fn the_exporter_has_counters_instead_of_rates() {
        let text = "# TYPE haproxy_frontend_http_requests_total counter\n\
            haproxy_frontend_http_requests_total{proxy=\"web\"} 400\n\
            haproxy_frontend_current_sessions{proxy=\"web\"} 3\n\
            haproxy_frontend_current_sessions{proxy=\"webs\"} 7\n";
        let row = from_exporter(text, Side::Frontend, "web").unwrap().unwrap();
        assert_eq!(row.number("req_tot"), Ok(Some(400.0)));
        assert_eq!(row.number("scur"), Ok(Some(3.0)));
        assert_eq!(row.number("req_rate"), Ok(None));
        assert!(row.number("hrsp_5xx").is_err());
        assert_eq!(from_exporter(text, Side::Backend, "web"), Ok(None));
        assert!(from_exporter("up 1\n", Side::Frontend, "web").is_err());
    }
}
