#include "idmap/domain.h"

#include <fcntl.h>
#include <netdb.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/data.h"
#include "base/file_io.h"
#include "base/log.h"
#include "base/result.h"
#include "base/workers.h"
#include "idmap/owner_text.h"

namespace penstock::idmap {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";
constexpr std::string_view kDefault = "localdomain";
constexpr size_t kMostOctets = 1 << 20;  // of a file; the rest is not read

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool IsWord(std::string_view text, std::string_view word) {
  return text.size() == word.size() && ::strncasecmp(text.data(), word.data(), word.size()) == 0;
}

// Takes the next line. A backslash before the end of a line continues it.
std::string TakeLine(std::string_view& text) {
  std::string line;
  for (;;) {
    const size_t end = std::min(text.find('\n'), text.size());
    line.append(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.ends_with('\\') || text.empty()) return line;
    line.back() = ' ';
  }
}

// The value of an assignment: in quotes, or up to a comment. Empty if a quote has no end.
std::optional<std::string> ValueIn(std::string_view text) {
  text = Trimmed(text);
  if (text.starts_with('"') || text.starts_with('\'')) {
    const size_t end = text.find(text.front(), 1);
    if (end == text.npos) return std::nullopt;
    return std::string(text.substr(1, end - 1));
  }
  return std::string(Trimmed(text.substr(0, text.find_first_of("#;"))));
}

// Names with numbers are in the order of the numbers, as in libnfsidmap.
std::vector<std::filesystem::path> FilesIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.') && name.ends_with(".conf")) files.push_back(entry.path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    log::warn("{}: {}: not searched for the domain of NFSv4", folder.string(), error.message());
  }
  std::ranges::sort(files, [](const auto& a, const auto& b) { return ::strverscmp(a.c_str(), b.c_str()) < 0; });
  return files;
}

std::optional<std::string> Read(const std::filesystem::path& file) {
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not block
  if (!fd && errno == ENOENT) return std::nullopt;
  std::string text(kMostOctets, '\0');
  const Result<size_t, int> size =
      fd ? ReadUpTo(fd.get(), std::as_writable_bytes(std::span(text)), 0) : std::unexpected(errno);
  if (!size) {
    log::warn("{}: {}: not searched for the domain of NFSv4", file.string(), DescribeErrno(size.error()));
    return std::nullopt;
  }
  text.resize(*size);
  return text;
}

std::optional<Domain> ConfiguredDomain(const std::filesystem::path& configuration) {
  std::vector<std::filesystem::path> files = FilesIn(configuration.string() + ".d");
  files.insert(files.begin(), configuration);
  std::optional<Domain> domain;
  for (const std::filesystem::path& file : files) {
    const auto text = Read(file);
    auto found = text ? DomainIn(*text) : std::nullopt;
    if (!found) continue;
    if (IsDomain(*found)) {
      domain = {.name = *std::move(found), .origin = file.string()};
    } else {
      log::warn("{}: the value of Domain is not the name of a domain, and is ignored", file.string());
    }
  }
  return domain;
}

// Calls a function that may block, and does not wait for it longer than `patience`.
std::optional<std::string> CallWithin(Duration patience, std::function<std::optional<std::string>()> function) {
  const auto result = std::make_shared<std::promise<std::optional<std::string>>>();
  auto future = result->get_future();
  try {
    Workers thread(1, Workers::AtEnd::kLeave, {.name = "penstock-domain"});
    thread.Post([result, function = std::move(function)] { result->set_value(function()); });
    if (future.wait_for(patience) == std::future_status::ready) {
      thread.Join();  // so that it is not left
      return future.get();
    }
  } catch (const std::system_error& why) {
    log::warn("the name of this host is not looked up: {}", why.what());
    return std::nullopt;
  }
  log::warn("the look-up of this host's name takes too long: NFSv4 uses the domain {}", kDefault);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> DomainIn(std::string_view text) {
  std::optional<std::string> domain;
  bool in_general = false;
  while (!text.empty()) {
    const std::string kept = TakeLine(text);
    const std::string_view line = Trimmed(kept);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const size_t end = line.find(']');
      in_general = end != line.npos && IsWord(Trimmed(line.substr(1, end - 1)), "General");
      continue;
    }
    const size_t equals = line.find('=');
    if (!in_general || equals == line.npos || !IsWord(Trimmed(line.substr(0, equals)), "Domain")) continue;
    auto value = ValueIn(line.substr(equals + 1));
    if (value && !value->empty()) domain = std::move(value);
  }
  return domain;
}

std::optional<std::string> DomainSources::FullHostName() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return std::nullopt;
  if (std::strchr(name, '.')) return name;
  addrinfo hints{};
  hints.ai_flags = AI_CANONNAME;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name, nullptr, &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  if (!found->ai_canonname) return std::nullopt;
  return found->ai_canonname;
}

Domain FindDomain(const DomainSources& sources) {
  if (auto configured = ConfiguredDomain(sources.configuration)) return *std::move(configured);
  if (const auto host = CallWithin(sources.patience, sources.full_host_name)) {
    const size_t dot = host->find('.');
    std::string_view domain = dot == host->npos ? std::string_view() : std::string_view(*host).substr(dot + 1);
    if (domain.ends_with('.')) domain.remove_suffix(1);
    if (IsDomain(domain)) return {.name = std::string(domain), .origin = "the name of this host"};
  }
  return {.name = std::string(kDefault), .origin = "the default"};
}

}  // namespace penstock::idmap
