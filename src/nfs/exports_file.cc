#include "nfs/exports_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/file_io.h"

namespace penstock::nfs {
namespace {

namespace stdfs = std::filesystem;

// The pseudo clients of old tables: everyone, with one flavor.
constexpr std::string_view kGss = "gss/";
constexpr size_t kMostMebibytes = 16;  // of a table

ExportOptions DefaultOptions() {
  ExportOptions options;
  options.read_only = true;
  options.squash = Squash::kRoot;
  options.privileged_ports = true;
  return options;
}

std::vector<std::string> Split(std::string_view list) {
  std::vector<std::string> options;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    options.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return options;
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

struct ExportsFiles::Line {
  const std::string& file;
  size_t number;          // of the first physical line
  std::string_view rest;  // without the comment, and with spaces for continuations
  bool is_damaged = false;

  // Returns the next word, without quotes and with its octal escapes replaced; empty at the end of the line. A comment
  // ends the line.
  std::string Next() {
    while (!rest.empty() && IsSpace(rest.front())) rest.remove_prefix(1);
    std::string word;
    bool quoted = false;
    while (!rest.empty()) {
      const char c = rest.front();
      if (!quoted && (IsSpace(c) || c == '#')) break;
      if (c == '"') {
        quoted = !quoted;
        rest.remove_prefix(1);
      } else if (const auto octet = Escape(); octet) {
        word += *octet;
        rest.remove_prefix(4);
      } else {
        word += c;
        rest.remove_prefix(1);
      }
    }
    is_damaged |= quoted;
    if (rest.starts_with('#')) rest = {};
    return word;
  }

 private:
  std::optional<char> Escape() const {
    if (rest.size() < 4 || rest[0] != '\\') return std::nullopt;
    unsigned value = 0;
    for (const char digit : rest.substr(1, 3)) {
      if (digit < '0' || digit > '7') return std::nullopt;
      value = value * 8 + static_cast<unsigned>(digit - '0');
    }
    if (value == 0 || value > 255) return std::nullopt;
    return static_cast<char>(value);
  }
};

void ExportsFiles::Complain(const Line& line, Severity severity, std::string message) {
  findings_.push_back({line.file, line.number, severity, std::move(message)});
}

void ExportsFiles::Read(const stdfs::path& path) {
  std::error_code error;
  if (!stdfs::is_directory(path, error)) return ReadTable(path);
  {
    std::set<stdfs::path> tables;
    for (stdfs::directory_iterator each(path, error), end; !error && each != end; each.increment(error)) {
      const stdfs::path& name = each->path().filename();
      if (name.extension() == ".exports" && !name.native().starts_with('.')) tables.insert(each->path());
    }
    if (error) findings_.push_back({path.string(), 0, Severity::kError, "cannot be read: " + error.message()});
    for (const stdfs::path& each : tables) ReadTable(each);
  }
}

void ExportsFiles::ReadTable(const stdfs::path& path) {
  const auto text = ReadRegularFile(path.string(), kMostMebibytes);
  if (text) return Parse(*text, path.string());
  findings_.push_back({path.string(), 0, Severity::kError, "cannot be read: " + text.error()});
}

void ExportsFiles::Parse(std::string_view text, const std::string& name) {
  size_t number = 0;
  std::string joined;
  size_t first = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (joined.empty()) first = number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    joined += line;
    if (goes_on && !text.empty()) {
      joined += ' ';
      continue;
    }
    if (joined.find('\0') != std::string::npos) {
      findings_.push_back({name, first, Severity::kError, "the line has a zero octet"});
    } else {
      Line whole{.file = name, .number = first, .rest = joined};
      ParseLine(whole);
    }
    joined.clear();
  }
}

ExportSpec& ExportsFiles::ExportOf(const Line& line, const std::string& path, const std::string& directory) {
  const auto known = std::ranges::find(exports_, path, &ExportSpec::path);
  if (known != exports_.end()) {
    if (known->directory != directory) {
      Complain(line, Severity::kError,
               fmt::format("{} is exported as {} and as {} ({})", path, directory, known->directory, known->place));
    }
    return *known;
  }
  ExportSpec& spec = exports_.emplace_back();
  spec.path = path;
  spec.directory = directory;
  spec.place = fmt::format("{}:{}", line.file, line.number);
  spec.admissions.clear();
  return spec;
}

void ExportsFiles::ParseLine(Line& line) {
  const std::string given = line.Next();
  if (given.empty() && !line.is_damaged) return;
  if (line.is_damaged) return Complain(line, Severity::kError, "a quotation mark is missing");
  if (NamesCephfs(given)) {
    return Complain(line, Severity::kError,
                    fmt::format("{0}: the path for the clients is missing: write PATH={0}", given));
  }
  // A directory of this host with a component "...=ceph:" needs --export.
  const size_t equals = given.find("=ceph:/");
  const auto path = NormalizeExportPath(std::string_view(given).substr(0, equals));
  if (!path) return Complain(line, Severity::kError, path.error().message);

  ExportSpec& spec = ExportOf(line, *path, equals == std::string::npos ? *path : given.substr(equals + 1));
  std::vector<std::string> defaults;
  size_t clients = 0;
  for (;;) {
    const std::string word = line.Next();
    if (line.is_damaged) return Complain(line, Severity::kError, "a quotation mark is missing");
    if (word.empty()) break;
    if (word.starts_with('-')) {
      defaults = Split(std::string_view(word).substr(1));
      continue;
    }
    AddClient(line, spec, word, defaults);
    ++clients;
  }
  if (clients > 0) return;
  Complain(line, Severity::kWarning,
           fmt::format("no clients are given: write {} *(ro) to export it to everyone, as the line does", *path));
  AddClient(line, spec, "*", defaults);
}

void ExportsFiles::AddClient(Line& line, ExportSpec& to, const std::string& word,
                             const std::vector<std::string>& defaults) {
  const size_t open = word.find('(');
  std::string who = word.substr(0, open);
  std::vector<std::string> given;
  if (open != std::string::npos) {
    if (!word.ends_with(')') || word.find('(', open + 1) != std::string::npos) {
      return Complain(
          line, Severity::kError,
          fmt::format("\"{}\": the options of a client stand in one pair of parentheses without spaces", word));
    }
    given = Split(std::string_view(word).substr(open + 1, word.size() - open - 2));
  } else if (word.find(')') != std::string::npos || word.find(',') != std::string::npos) {
    return Complain(
        line, Severity::kError,
        fmt::format("\"{}\": the options of a client stand in one pair of parentheses without spaces", word));
  }
  if (who.empty()) {
    Complain(line, Severity::kWarning,
             fmt::format("the options {} follow no client, and so hold for everyone: write *{} if that is meant, and "
                         "no space between a client and its options if it is not",
                         word, word));
    who = "*";
  }

  const size_t notes = to.notes.size();
  OptionCollector collector(to, DefaultOptions());
  if (who.starts_with(kGss)) {
    given.insert(given.begin(), "sec=" + who.substr(kGss.size()));
    who = "*";
  }
  bool good = true;
  for (const std::vector<std::string>* list : {&defaults, &std::as_const(given)}) {
    for (const std::string& option : *list) {
      const auto added = collector.Add(option);
      if (added) continue;
      Complain(line, Severity::kError, added.error().message);
      good = false;
    }
  }
  for (size_t i = notes; i < to.notes.size(); ++i) Complain(line, Severity::kWarning, to.notes[i]);
  const auto clients = ClientSpec::Parse(who);
  if (!clients) {
    return Complain(line, Severity::kError, fmt::format("\"{}\": {}", who, clients.error().message));
  }
  if (!good) return;
  auto options = collector.Finish();
  if (!options) return Complain(line, Severity::kError, options.error().message);

  const auto same = std::ranges::find(to.admissions, *clients, &Admission::clients);
  if (same == to.admissions.end()) {
    to.admissions.push_back({*clients, *std::move(options)});
    return;
  }
  // gss/krb5 beside *, or twice: the flavors that the earlier entry lacks have the options of this one.
  ExportOptions& earlier = same->options;
  SecurityFlavors others;
  for (const SecurityFlavor each : options->security) {
    if (!earlier.security.Has(each)) others.Add(each);
  }
  if (!word.starts_with(kGss) || others.empty()) {
    return Complain(line, Severity::kWarning,
                    fmt::format("{} is exported to {} twice: the first entry holds ({})", to.path,
                                same->clients.ToString(), to.place));
  }
  ExportOptions alike = *options;
  alike.read_only = earlier.read_only;
  alike.squash = earlier.squash;
  alike.security = earlier.security;
  alike.by_flavor = earlier.by_flavor;
  if (alike != earlier) {
    Complain(line, Severity::kError,
             fmt::format("{} and {} differ in more than ro, rw and squashing: write one entry with several sec=", word,
                         same->clients.ToString()));
  }
  earlier.by_flavor.push_back({others, options->read_only, options->squash});
  earlier.security.Add(others);
}

void ExportsFiles::Finish() {
  const ExportSpec* root = nullptr;
  for (ExportSpec& each : exports_) {
    const size_t colon = each.place.rfind(':');
    const std::string file = each.place.substr(0, colon);
    const size_t line = std::stoul(each.place.substr(colon + 1));
    // Among the other findings about the file, in the order of lines.
    const auto complain = [&](Severity severity, std::string message) {
      const auto is_before = [&](const Finding& other) { return other.file == file && other.line <= line; };
      const auto last = std::ranges::find_if(findings_.rbegin(), findings_.rend(), is_before).base();
      findings_.insert(last == findings_.begin() ? findings_.end() : last, {file, line, severity, std::move(message)});
    };
    each.notes.clear();  // they are findings
    if (const auto good = CheckCephfsOptions(each); !good) complain(Severity::kError, good.error().message);
    for (std::string& note : each.notes) complain(Severity::kWarning, std::move(note));
    each.notes.clear();
    if (each.is_root && std::exchange(root, &each)) {
      complain(Severity::kError,
               fmt::format("{} has fsid=0, and another export has it, too: version 4 has one root", each.path));
    }
    for (const Admission& admission : each.admissions) {
      if (admission.options.locations != each.admissions.front().options.locations) {
        complain(Severity::kError, fmt::format("{}: refer= and replicas= must be the same for all clients", each.path));
        break;
      }
    }
  }
  // A mistake in every entry leaves an export without clients, which is worth no more words.
  std::erase_if(exports_, [](const ExportSpec& each) { return each.admissions.empty(); });
}

}  // namespace penstock::nfs
