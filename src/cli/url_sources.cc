#include "cli/url_sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "client/url.h"

namespace penstock::cli {

namespace {

using client::UrlOption;

void Append(std::vector<UrlOption>& options, std::vector<UrlOption> more) {
  std::ranges::move(more, std::back_inserter(options));
}

}  // namespace

std::vector<UrlOption> OptionsOfFlags(const AccessOptions& options) {
  std::vector<UrlOption> taken;
  for (const std::string& each : options.options) Append(taken, client::Url::SplitOptions(each, "-o"));
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) taken.push_back({.name = name, .value = value, .source = fmt::format("--{} {}", name, value)});
  };
  add("vers", options.vers);
  add("sec", options.sec);
  add("xprtsec", options.tls.xprtsec);
  return taken;
}

std::vector<UrlOption> OptionsOfEnvironment() {
  std::vector<UrlOption> taken;
  if (const char* const text = ValueInEnvironment("PENSTOCK_OPTIONS")) {
    Append(taken, client::Url::SplitOptions(text, "PENSTOCK_OPTIONS:"));
  }
  const auto add = [&](const char* name, const char* variable) {
    const char* const text = ValueInEnvironment(variable);
    if (text && *text) taken.push_back({.name = name, .value = text, .source = fmt::format("{}={}", variable, text)});
  };
  add("sec", "PENSTOCK_SEC");
  add("xprtsec", "PENSTOCK_XPRTSEC");
  return taken;
}

const char* ValueInEnvironment(const char* variable) {
  return std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): before any other thread
}

}  // namespace penstock::cli
