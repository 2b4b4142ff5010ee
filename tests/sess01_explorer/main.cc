// sess01_explorer explores the tables of a session in a small world, and prints the shortest way to the first error.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include <fmt/core.h>

#include "bound_server.h"
#include "chain_world.h"
#include "explorer.h"
#include "slot_server.h"

namespace penstock::explorer {
namespace {

struct Arguments {
  Size size;
  std::string server = "sess01";
  Rules rules;
  bool keeps_nothing = false;
  size_t chains = 0;
};

std::unique_ptr<Server> MakeServer(const Arguments& arguments) {
  const auto streams = static_cast<uint32_t>(arguments.size.streams);
  if (arguments.server == "rfc8881") return std::make_unique<SlotServer>(streams);
  return std::make_unique<BoundServer>(streams, !arguments.keeps_nothing, arguments.rules);
}

int RunChains(const Arguments& arguments) {
  const ChainReport report =
      ExploreChains({.channels = static_cast<size_t>(arguments.size.channels), .waiting = arguments.chains});
  fmt::print("{} states, {} steps\n{}", report.states, report.steps,
             report.wrong.empty() ? "no errors\n" : report.story);
  return report.wrong.empty() ? 0 : 1;
}

int Run(Arguments arguments) {
  if (arguments.chains) return RunChains(arguments);
  arguments.size.executes_once = !arguments.keeps_nothing;
  World world(arguments.size, MakeServer(arguments));
  const auto began = std::chrono::steady_clock::now();
  const Report report = Explore(world);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - began;
  fmt::print("{} states, {} steps, {} states of the server, {:.1f} s\n", report.states, report.steps, report.servers,
             time.count());
  if (report.wrong.empty()) {
    fmt::print("no errors\n");
    return 0;
  }
  fmt::print("{}", Story(world, report));
  return 1;
}

}  // namespace
}  // namespace penstock::explorer

int main(int argc, char** argv) {
  using penstock::explorer::kMostChannels, penstock::explorer::kMostRequests, penstock::explorer::Rules;
  penstock::explorer::Arguments arguments;
  bool closes_nothing = false, finds_no_stale = false;
  CLI::App app("Explores every order of events in a small world of a client and the tables of its session");
  app.add_option("--channels", arguments.size.channels, "the channels that the client may bind")
      ->check(CLI::Range(1, kMostChannels))
      ->capture_default_str();
  app.add_option("--at-once", arguments.size.at_once, "the channels that it binds at the beginning")
      ->check(CLI::Range(1, kMostChannels))
      ->capture_default_str();
  app.add_option("--streams", arguments.size.streams, "the streamids, or slots")
      ->check(CLI::Range(1, kMostRequests))
      ->capture_default_str();
  app.add_option("--requests", arguments.size.requests, "the requests of the client")
      ->check(CLI::Range(1, kMostRequests))
      ->capture_default_str();
  app.add_option("--server", arguments.server, "sess01 or rfc8881")
      ->check(CLI::IsMember({"sess01", "rfc8881"}))
      ->capture_default_str();
  app.add_flag("--keep-nothing", arguments.keeps_nothing, "sess01: the session keeps no replies");
  app.add_flag("--no-closing", closes_nothing, "sess01: a retry does not close the channel that it names");
  app.add_flag("--no-stale-rule", finds_no_stale, "sess01: a retry that is not recognized is always executed");
  app.add_option("--chains", arguments.chains,
                 "explores the chains of the channels instead, with so many chained requests that are not answered");
  CLI11_PARSE(app, argc, argv);
  if (arguments.size.at_once > arguments.size.channels) arguments.size.at_once = arguments.size.channels;
  arguments.rules.closes_named = !closes_nothing;
  if (finds_no_stale) arguments.rules.stale = Rules::Stale::kNever;
  return penstock::explorer::Run(arguments);
}
