// penstock ctl: asks a running server, and steers it, over its control socket.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/state_directory.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/ctl_text.h"
#include "cli/interface.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "control/client.h"

namespace penstock::cli {
namespace {

struct ControlOptions {
  ControlWords words;
  std::string socket;
  bool json = false;
  double interval = 2;
  uint64_t count = 0;
};

// The socket of the user's own server, or else that of the service.
std::filesystem::path UsualSocket() {
  constexpr const char* kOfService = "/var/lib/penstock/control";
  const std::filesystem::path own = DefaultStateDirectory() / "control";
  std::error_code error;
  return std::filesystem::exists(own, error) || ::geteuid() == 0 ? own : kOfService;
}

int Top(control::Client& client, const ControlOptions& options) {
  constexpr size_t kRows = 15;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  auto last = client.Call("counters", Json::object());
  auto last_at = std::chrono::steady_clock::now();
  for (uint64_t shown = 0; options.count == 0 || shown < options.count; ++shown) {
    if (!last) return PrintError(last.error().message);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
    auto next = client.Call("counters", Json::object());
    if (!next) return PrintError(next.error().message);
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_at).count();
    const std::string text = TopText(*last, *next, seconds, kRows);
    if (const int code = PrintOutput((terminal ? "\x1b[H\x1b[J" : "") + text + (terminal ? "" : "\n")); code != 0)
      return code;
    last = std::move(next);
    last_at = now;
  }
  return 0;
}

int Control(const ControlOptions& options) {
  const auto request = RequestFor(options.words);
  if (!request) return PrintUsageError(request.error().message);
  const bool is_top = options.words.command == "top";
  if (is_top && options.json)
    return PrintUsageError("top takes no --json: `penstock ctl --json counters` has its numbers");
  auto client =
      control::Client::Connect(options.socket.empty() ? UsualSocket() : std::filesystem::path(options.socket));
  if (!client) return PrintError(client.error().message);
  if (is_top) return Top(*client, options);
  int code = 0;
  for (const Json& arguments : request->arguments) {
    const auto result = client->Call(request->command, arguments);
    if (!result) {
      code = PrintError(Printable(result.error().message));
      continue;  // the others have nothing to do with it
    }
    const std::string text = options.json ? result->dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                                          : ResultText(request->command, *result);
    if (const int shown = PrintOutput(text); shown != 0) return shown;
  }
  return code;
}

}  // namespace

Command AddControl(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("ctl", "Ask a server that runs on this host, and steer it");
  const auto options = std::make_shared<ControlOptions>();
  command
      ->add_option(
          "COMMAND", options->words.command,
          "What to ask or to do. The commands beyond those that only show something: reload applies a changed\n"
          "configuration; evict CLIENT... ends clients and all that they hold; revoke STATEID... ends single\n"
          "opens, locks or delegations; drain on|off refuses new clients; grace start SECONDS|end begins or\n"
          "ends a grace period; log LEVEL [MODULE] changes what is logged; trace start FILE [CLIENT]|stop records new\n"
          "RDMA connections")
      ->required()
      ->check(CLI::IsMember(ControlCommandNames()));
  command->add_option("WORD", options->words.arguments, "The words of the command, such as CLIENT")->expected(0, 1000);
  command
      ->add_option("--control", options->socket,
                   "The control socket of the server; the default is that of this user's server, or else that of the\n"
                   "service, /var/lib/penstock/control")
      ->type_name("FILE")
      ->envname("PENSTOCK_CONTROL");
  command->add_option(
      "--client", options->words.client,
      "Show only sessions, opens, locks or delegations of this client: an ID as clients shows it, or an\n"
      "address");
  command->add_option("--file", options->words.path,
                      "Show only opens, locks or delegations of this file: its path as clients see it");
  command->add_option("--limit", options->words.limit, "Show at most so many of them; the default is 10000");
  command->add_flag("--json", options->json, "Print the server's answer as JSON");
  command->add_option("--interval", options->interval, "For top: seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--count", options->count, "For top: end after so many looks; 0: do not end")
      ->capture_default_str();
  SetFooter(*command, "The exit code is 1 if the server does not answer or refuses the command.",
            {"# See whether the server is well", "penstock ctl status", "# See who holds a lock on a file",
             "penstock ctl locks --file /data/mailbox", "# End a client that has gone, and free its locks",
             "penstock ctl evict 192.0.2.7"});
  return {command, [options] { return Control(*options); }};
}

}  // namespace penstock::cli
