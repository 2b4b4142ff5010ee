#include "cli/ctl_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/printable.h"

namespace penstock::cli {
namespace {

// ---- requests

struct Usage {
  std::string_view command;
  std::string_view words;  // after the command; empty: none
  bool selects = false;    // takes --client, and if `of_files` --file and --limit
  bool of_files = false;
};

constexpr Usage kUsages[] = {
    {"status", ""},
    {"exports", ""},
    {"connections", ""},
    {"clients", ""},
    {"sessions", "", true},
    {"opens", "", true, true},
    {"locks", "", true, true},
    {"delegations", "", true, true},
    {"top", ""},
    {"reload", ""},
    {"evict", "CLIENT..."},
    {"revoke", "STATEID..."},
    {"drain", "on | off"},
    {"grace", "start SECONDS | end"},
    {"log", "[LEVEL [MODULE]]"},
    {"trace", "start FILE [CLIENT] | stop"},
};

const Usage* UsageOf(std::string_view command) {
  const auto found = std::ranges::find(kUsages, command, &Usage::command);
  return found == std::end(kUsages) ? nullptr : found;
}

std::unexpected<SetupError> Misused(const Usage& usage) {
  if (usage.words.empty()) return std::unexpected(SetupError{fmt::format("{} takes no further words", usage.command)});
  return std::unexpected(SetupError{fmt::format("the command is: {} {}", usage.command, usage.words)});
}

std::optional<uint64_t> ParseNumber(const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoull(text);
}

// ---- tables

bool IsNumber(std::string_view text) {
  return text.find_first_not_of("0123456789.") == text.npos && std::ranges::count(text, '.') <= 1;
}

class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  // Numbers stand at the right of their columns, texts at the left. The last column is not padded.
  std::string ToText() const {
    std::vector<size_t> widths(rows_.front().size());
    std::vector<bool> numeric(widths.size(), true);
    for (size_t row = 0; row < rows_.size(); ++row) {
      for (size_t i = 0; i < widths.size(); ++i) {
        const std::string& cell = rows_[row][i];
        widths[i] = std::max(widths[i], cell.size());
        if (row > 0 && !IsNumber(cell)) numeric[i] = false;
      }
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) line += "  ";
        line += numeric[i] ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

// The text of a member; "-" if it is missing or empty.
std::string Cell(const Json& of, const char* member) {
  const auto found = of.find(member);
  if (found == of.end() || found->is_null()) return "-";
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    return text.empty() ? "-" : Printable(text);
  }
  if (found->is_boolean()) return found->get<bool>() ? "yes" : "no";
  if (found->is_array()) {
    std::vector<std::string> items;
    for (const Json& each : *found)
      items.push_back(each.is_string() ? Printable(each.get<std::string>()) : each.dump());
    return items.empty() ? "-" : fmt::format("{}", fmt::join(items, ","));
  }
  return found->dump();
}

std::string DurationText(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
}

std::string DurationCell(const Json& of, const char* member) {
  const auto found = of.find(member);
  return found == of.end() ? "-" : DurationText(found->get<double>());
}

std::string SizeText(double octets) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; octets >= 1024 && unit + 1 < std::size(kUnits); ++unit) octets /= 1024;
  return fmt::format("{:.{}f} {}", octets, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string StatusText(const Json& status) {
  std::string text = fmt::format("{}, process {}, has run for {}\n", Cell(status, "version"), Cell(status, "pid"),
                                 DurationCell(status, "uptime_seconds"));
  text += status.value("ready", false) ? "ready\n" : fmt::format("not ready: {}\n", Cell(status, "not_ready_because"));
  if (status.value("grace_period", false)) {
    text += "grace period: clients reclaim their state, and new opens and locks of version 4 wait for its end\n";
  }
  const Json listening = status.value("listening", Json::object());
  for (const auto& [what, where] : listening.items()) {
    text += fmt::format("{}: {}\n", what, where.empty() ? "off" : Cell(listening, what.c_str()));
  }
  if (const std::string devices = Cell(status, "rdma"); devices != "-") text += fmt::format("RDMA by {}\n", devices);
  size_t number = 0;
  const Json delays = status.value("loop_delay_seconds", Json::array());
  for (const Json& delay : delays) {
    text += delay.is_null() ? fmt::format("event loop {} does not answer\n", number) : "";
    ++number;
  }
  Table table({"EXPORTS", "CONNECTIONS", "CLIENTS", "LOCK HOSTS", "SESSIONS", "OPENS", "LOCKED RANGES", "DELEGATIONS",
               "COPIES", "MEMORY OF CALLS"});
  table.Add({Cell(status, "exports"),
             fmt::format("{} of {}", Cell(status, "connections"), Cell(status, "most_connections")),
             Cell(status, "clients"), Cell(status, "lock_hosts"), Cell(status, "sessions"), Cell(status, "opens"),
             Cell(status, "locked_ranges"), Cell(status, "delegations"), Cell(status, "copies"),
             fmt::format("{} of {}", SizeText(status.value("call_memory_bytes", 0.0)),
                         SizeText(status.value("most_call_memory_bytes", 0.0)))});
  text += table.ToText();
  if (status.value("trace", false)) text += "A trace is being written\n";
  return text;
}

std::string ExportsText(const Json& exports) {
  Table table({"PATH", "CLIENTS", "ACCESS", "SEC", "XPRTSEC", "PORTS", "SQUASH"});
  for (const Json& each : exports) {
    std::string path = Cell(each, "path");
    if (each.value("referral", false)) path += " (referral)";
    for (const Json& group : each["clients"]) {
      table.Add({path, Cell(group, "clients"), Cell(group, "access"), Cell(group, "sec"), Cell(group, "xprtsec"),
                 Cell(group, "ports"), Cell(group, "squash")});
    }
  }
  return table.empty() ? "nothing is exported\n" : table.ToText();
}

std::string ConnectionsText(const Json& connections) {
  Table table({"NUMBER", "ADDRESS", "PORT", "TRANSPORT", "TLS", "IDLE FOR"});
  for (const Json& each : connections) {
    table.Add({Cell(each, "number"), Cell(each, "address"), Cell(each, "port"), Cell(each, "transport"),
               Cell(each, "tls"), DurationCell(each, "idle_seconds")});
  }
  return table.empty() ? "no connections\n" : table.ToText();
}

std::string ClientsText(const Json& clients) {
  Table table({"CLIENT", "VERSION", "ADDRESS", "TRANSPORT", "PRINCIPAL", "LEASE", "RENEWED", "SESSIONS", "OPENS",
               "LOCKS", "DELEGATIONS", "NAME"});
  for (const Json& each : clients) {
    table.Add({Cell(each, "id"), Cell(each, "version"), Cell(each, "addresses"), Cell(each, "transports"),
               Cell(each, "principal"), Cell(each, "lease"), DurationCell(each, "since_renewal_seconds"),
               Cell(each, "sessions"), Cell(each, "opens"), Cell(each, "locks"), Cell(each, "delegations"),
               Cell(each, "name")});
  }
  return table.empty() ? "no clients\n" : table.ToText();
}

std::string SessionsText(const Json& sessions) {
  Table table({"SESSION", "CLIENT", "VERSION", "SLOTS", "BUSY", "CALLBACKS", "PERSISTENT", "CONNECTIONS"});
  for (const Json& each : sessions) {
    table.Add({Cell(each, "id"), Cell(each, "client"), Cell(each, "version"), Cell(each, "slots"),
               Cell(each, "busy_slots"), Cell(each, "back_channel"), Cell(each, "persistent"),
               Cell(each, "connections")});
  }
  return table.empty() ? "no sessions\n" : table.ToText();
}

std::string Completed(const Table& table, std::string_view what, const Json& result) {
  std::string text = table.empty() ? fmt::format("no {}\n", what) : table.ToText();
  if (!result.value("complete", true)) text += "there are more: --limit shows more of them\n";
  const auto unnamed = result.value("unnamed", uint64_t{0});
  if (unnamed == 0) return text;
  const bool one = unnamed == 1;
  return text +
         fmt::format("{} {} of {}: the list without --file shows {}\n", unnamed, one ? "more is" : "more are",
                     one ? "a file whose name the server does not know" : "files whose names the server does not know",
                     one ? "it" : "them");
}

std::string OpensText(const Json& result) {
  Table table({"CLIENT", "ACCESS", "DENIES", "STATEID", "FILE"});
  for (const Json& each : result["states"]) {
    table.Add(
        {Cell(each, "client"), Cell(each, "access"), Cell(each, "deny"), Cell(each, "stateid"), Cell(each, "path")});
  }
  return Completed(table, "opens", result);
}

std::string LocksText(const Json& result) {
  Table table({"CLIENT", "TYPE", "OFFSET", "LENGTH", "STATEID", "FILE"});
  for (const Json& each : result["states"]) {
    for (const Json& range : each["ranges"]) {
      const std::string length = Cell(range, "length");
      table.Add({Cell(each, "client"), Cell(range, "type"), Cell(range, "offset"),
                 length == "-" ? "to the end" : length, Cell(each, "stateid"), Cell(each, "path")});
    }
  }
  return Completed(table, "locks", result);
}

std::string DelegationsText(const Json& result) {
  Table table({"CLIENT", "TYPE", "RECALLED FOR", "STATEID", "FILE"});
  for (const Json& each : result["states"]) {
    table.Add({Cell(each, "client"), Cell(each, "type"), DurationCell(each, "recalled_seconds"), Cell(each, "stateid"),
               Cell(each, "path")});
  }
  return Completed(table, "delegations", result);
}

std::string LogText(const Json& result) {
  Table table({"MODULE", "LEVEL"});
  for (const Json& each : result) table.Add({Cell(each, "module"), Cell(each, "level")});
  return table.ToText();
}

std::string ReloadText(const Json& result) {
  std::string text;
  for (const Json& each : result["warnings"]) text += each.get<std::string>() + "\n";
  for (const Json& each : result["changes"]) text += fmt::format("the server {}\n", each.get<std::string>());
  if (const std::string later = Cell(result, "after_restart"); later != "-") {
    text += fmt::format("changed, but only from the next start on: {}\n", later);
  }
  return text.empty() ? "the configuration is the same as before\n" : text;
}

// ---- top

// The sums of a counter by one label.
using Sums = std::map<std::string, double>;

Sums SumsOf(const Json& counters, const char* family, const char* label) {
  Sums sums;
  const Json samples = counters.value(family, Json::array());
  for (const Json& sample : samples) {
    sums[sample["labels"].value(label, "")] += sample.value("value", 0.0);
  }
  return sums;
}

// How fast the counter has grown. A client that made room for others, or a server that started again, begins anew.
class Rates {
 public:
  Rates(const Json& before, const Json& after, double seconds, const char* family, const char* label)
      : before_(SumsOf(before, family, label)), after_(SumsOf(after, family, label)), seconds_(seconds) {}
  double Of(const std::string& name) const {
    const auto now = after_.find(name);
    if (now == after_.end() || seconds_ <= 0) return 0;
    const auto then = before_.find(name);
    return std::max(0.0, now->second - (then == before_.end() ? 0 : then->second)) / seconds_;
  }
  double Sum() const {
    double sum = 0;
    for (const auto& [name, value] : after_) sum += Of(name);
    return sum;
  }
  // The names, the busiest first, without those at rest.
  std::vector<std::string> Busiest(size_t most) const {
    std::vector<std::string> names;
    for (const auto& [name, value] : after_) {
      if (Of(name) > 0) names.push_back(name);
    }
    std::ranges::sort(names, {}, [this](const std::string& name) { return std::pair(-Of(name), name); });
    if (names.size() > most) names.resize(most);
    return names;
  }

 private:
  const Sums before_, after_;
  const double seconds_;
};

std::string RateText(double rate) { return fmt::format("{:.{}f}", rate, rate < 10 ? 1 : 0); }
std::string MicrosecondsText(double seconds) { return fmt::format("{:.1f}", seconds * 1e6); }
std::string MebibytesText(double octets) { return fmt::format("{:.1f}", octets / (1 << 20)); }

struct Latencies {
  double count = 0, sum = 0;
};
using LatenciesByOperation = std::map<std::string, Latencies>;

LatenciesByOperation LatenciesOf(const Json& counters) {
  LatenciesByOperation all;
  const Json samples = counters.value("penstock_operation_seconds", Json::array());
  for (const Json& sample : samples) {
    const Json& labels = sample["labels"];
    Latencies& of = all[fmt::format("{} {} {}", labels.value("program", ""), labels.value("version", ""),
                                    labels.value("operation", ""))];
    of.count += sample.value("count", 0.0);
    of.sum += sample.value("sum", 0.0);
  }
  return all;
}

std::string OperationsText(const Json& before, const Json& after, double seconds, size_t rows) {
  const LatenciesByOperation then = LatenciesOf(before), now = LatenciesOf(after);
  struct Row {
    std::string name;
    double rate, latency;
  };
  std::vector<Row> busy;
  for (const auto& [name, latencies] : now) {
    const auto earlier = then.find(name);
    const Latencies old = earlier == then.end() ? Latencies() : earlier->second;
    const double count = latencies.count - old.count;
    if (count > 0 && seconds > 0) busy.push_back({name, count / seconds, (latencies.sum - old.sum) / count});
  }
  std::ranges::sort(busy, {}, [](const Row& row) { return std::pair(-row.rate, row.name); });
  if (busy.size() > rows) busy.resize(rows);
  Table table({"OPERATION", "PER SECOND", "MEAN us"});
  for (const Row& each : busy) table.Add({each.name, RateText(each.rate), MicrosecondsText(each.latency)});
  return table.empty() ? "" : "\n" + table.ToText();
}

}  // namespace

const std::vector<std::string>& ControlCommandNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Usage& each : kUsages) all.emplace_back(each.command);
    return all;
  }();
  return names;
}

SetupResult<ControlRequest> RequestFor(const ControlWords& words) {
  const Usage* const usage = UsageOf(words.command);
  if (!usage) return std::unexpected(SetupError{fmt::format("there is no command \"{}\"", words.command)});
  if (!words.client.empty() && !usage->selects) {
    return std::unexpected(SetupError{fmt::format("{} takes no --client", words.command)});
  }
  if ((!words.path.empty() || words.limit) && !usage->of_files) {
    return std::unexpected(SetupError{fmt::format("{} takes no --file and no --limit", words.command)});
  }
  const std::vector<std::string>& given = words.arguments;
  ControlRequest request{words.command, {}};
  Json arguments = Json::object();
  if (!words.client.empty()) arguments["client"] = words.client;
  if (!words.path.empty()) arguments["path"] = words.path;
  if (words.limit) arguments["limit"] = *words.limit;
  if (usage->words.empty()) {
    if (!given.empty()) return Misused(*usage);
  } else if (words.command == "evict" || words.command == "revoke") {
    if (given.empty()) return Misused(*usage);
    for (const std::string& each : given) {
      request.arguments.push_back({{words.command == "evict" ? "client" : "stateid", each}});
    }
    return request;
  } else if (words.command == "drain") {
    if (given.size() != 1 || (given[0] != "on" && given[0] != "off")) return Misused(*usage);
    arguments["on"] = given[0] == "on";
  } else if (words.command == "grace") {
    const bool ends = given.size() == 1 && given[0] == "end";
    const bool starts = given.size() == 2 && given[0] == "start" && ParseNumber(given[1]);
    if (!ends && !starts) return Misused(*usage);
    arguments["action"] = given[0];
    if (starts) arguments["seconds"] = *ParseNumber(given[1]);
  } else if (words.command == "log") {
    if (given.size() > 2) return Misused(*usage);
    if (!given.empty()) arguments["level"] = given[0];
    if (given.size() == 2) arguments["module"] = given[1];
  } else {  // trace
    const bool stops = given.size() == 1 && given[0] == "stop";
    const bool starts = (given.size() == 2 || given.size() == 3) && given[0] == "start";
    if (!stops && !starts) return Misused(*usage);
    arguments["action"] = given[0];
    if (starts) arguments["file"] = given[1];
    if (given.size() == 3) arguments["client"] = given[2];
  }
  request.arguments.push_back(std::move(arguments));
  return request;
}

std::string ResultText(std::string_view command, const Json& result) {
  if (command == "status") return StatusText(result);
  if (command == "exports") return ExportsText(result);
  if (command == "connections") return ConnectionsText(result);
  if (command == "clients") return ClientsText(result);
  if (command == "sessions") return SessionsText(result);
  if (command == "opens") return OpensText(result);
  if (command == "locks") return LocksText(result);
  if (command == "delegations") return DelegationsText(result);
  if (command == "reload") return ReloadText(result);
  if (command == "log") return LogText(result);
  if (command == "evict") return fmt::format("evicted {}\n", Cell(result, "evicted"));
  if (const double lost = result.value("lost_packets", 0.0); lost > 0) {
    return fmt::format("the trace lacks {} packets: the disk was too slow\n", lost);
  }
  return "";
}

std::string TopText(const Json& before, const Json& after, double seconds, size_t rows) {
  std::string text;
  for (const auto& [what, label, heading] :
       {std::tuple("client", "client", "CLIENT"), std::tuple("export", "export", "EXPORT")}) {
    const auto rates = [&](std::string_view counter) {
      return Rates(before, after, seconds, fmt::format("penstock_{}_{}_total", what, counter).c_str(), label);
    };
    const Rates operations = rates("operations"), time = rates("operation_seconds"), read = rates("read_bytes"),
                written = rates("written_bytes");
    if (text.empty()) {
      text = fmt::format("{} operations, {} MiB read, {} MiB written per second\n", RateText(operations.Sum()),
                         MebibytesText(read.Sum()), MebibytesText(written.Sum()));
    }
    Table table({heading, "OPERATIONS/s", "MEAN us", "READ MiB/s", "WRITTEN MiB/s"});
    for (const std::string& name : operations.Busiest(rows)) {
      table.Add({name, RateText(operations.Of(name)), MicrosecondsText(time.Of(name) / operations.Of(name)),
                 MebibytesText(read.Of(name)), MebibytesText(written.Of(name))});
    }
    if (!table.empty()) text += "\n" + table.ToText();
  }
  return text + OperationsText(before, after, seconds, rows);
}

}  // namespace penstock::cli
