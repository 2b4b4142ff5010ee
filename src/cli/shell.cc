// penstock shell: reads commands from a terminal or a pipe, and runs them in a directory of a server. Each is a command
// of the program, which a process of its own runs, so that an interrupt ends the command and not the shell.
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef PENSTOCK_LIBEDIT
#include <editline/readline.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/shell_words.h"
#include "cli/walk.h"

namespace penstock::cli {
namespace {

using client::Result;

struct ShellOptions : ClientOptions {
  std::string url;
  bool stops = false;  // at the first command that fails
};

constexpr std::string_view kShellHelp =
    "cd [DIRECTORY]        go to a directory of the server\n"
    "pwd                   print the directory of the server\n"
    "lcd [DIRECTORY]       go to a directory of this host\n"
    "lpwd                  print the directory of this host\n"
    "get FILE... [LOCAL]   copy from the server: several files into a local directory\n"
    "put LOCAL... [FILE]   copy to the server: several files into a directory\n"
    "exit                  end\n"
    "All other commands are those of the program: ls, cat, rm, ... `ls --help` explains one. Their paths are on the\n"
    "server, and begin at its directory.\n";

class Shell {
 public:
  // `inherited`: options of the shell that each command gets as well.
  Shell(const ShellOptions& options, const client::Url& url, std::vector<CommandFacts> commands,
        std::vector<std::string> inherited)
      : options_(options),
        commands_(std::move(commands)),
        inherited_(std::move(inherited)),
        place_(options.url, url.path) {}

  // Reads lines to their end. Returns the exit code of the last command.
  int Run();
  // For the completion: the names that begin as `word` does.
  std::vector<std::string> Complete(const std::string& word, bool is_command);

 private:
  // Returns the exit code.
  int RunLine(const std::string& line);
  // Returns the exit code: 0 if the path is a directory of the server.
  int CheckDirectory(const std::string& path) const;
  int ChangeDirectory(const std::vector<std::string>& words);
  int ChangeLocalDirectory(const std::vector<std::string>& words);
  int Transfer(std::vector<std::string> words);
  int RunWords(std::vector<std::string> words);
  std::optional<std::string> ReadLine();

  const ShellOptions& options_;
  const std::vector<CommandFacts> commands_;
  const std::vector<std::string> inherited_;
  const bool is_interactive_ = ::isatty(STDIN_FILENO) == 1;
  ShellPlace place_;
  std::string directory_before_ = "/";
  int code_ = 0;  // of the last command
  bool ended_ = false;
};

// ---- commands ----

int Shell::RunLine(const std::string& line) {
  const auto words = SplitWords(line);
  if (!words) return PrintUsageError(words.error());
  // An empty line or a comment is no command: the exit code stays that of the last one.
  if (words->empty()) return code_;
  const std::string& command = words->front();
  if (command == "exit" || command == "quit" || command == "bye") {
    ended_ = true;
    return 0;
  }
  if (command == "help" || command == "?") return PrintOutput(kShellHelp);
  if (command == "pwd") return PrintOutput(place_.path() + "\n");
  if (command == "lpwd") {
    std::error_code error;
    const std::string path = std::filesystem::current_path(error).string();
    return error ? PrintError(error.message()) : PrintOutput(path + "\n");
  }
  if (command == "cd") return ChangeDirectory(*words);
  if (command == "lcd") return ChangeLocalDirectory(*words);
  if (command == "get" || command == "put") return Transfer(*words);
  if (command == "shell") return PrintUsageError("shell: this is one");
  auto program_words = ProgramWords(*words, place_, commands_);
  if (!program_words) return PrintUsageError(command + ": no command of the shell; `help` lists them");
  return RunWords(*std::move(program_words));
}

int Shell::CheckDirectory(const std::string& path) const {
  return RunOnMounts({place_.UrlOf(path)}, options_, [](ClientRuntime&, const Mounted& at) -> Task<Result<void>> {
    PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve());
    if (IsDirectory(node.attributes)) co_return Result<void>();
    co_return std::unexpected(client::ErrorOf(client::Status::kNotDirectory, at.name));
  });
}

int Shell::ChangeDirectory(const std::vector<std::string>& words) {
  if (words.size() > 2) return PrintUsageError("cd: one directory is expected");
  const std::string to = words.size() == 1 ? "/" : words[1] == "-" ? directory_before_ : words[1];
  const std::string path = place_.Absolute(to);
  const int code = CheckDirectory(path);
  if (code != 0) return code;
  directory_before_ = place_.path();
  place_.ChangeTo(path);
  return 0;
}

int Shell::ChangeLocalDirectory(const std::vector<std::string>& words) {
  if (words.size() > 2) return PrintUsageError("lcd: one directory is expected");
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): no other thread runs
  const std::string to = words.size() == 2 ? words[1] : home ? home : "/";
  if (::chdir(to.c_str()) != 0) return PrintError(fmt::format("{}: {}", to, DescribeErrno(errno)));
  return 0;
}

// get and put: `cp` with the last name on the other side. Options begin with '-'.
int Shell::Transfer(std::vector<std::string> words) {
  const bool gets = words.front() == "get";
  std::vector<std::string> names;
  std::vector<std::string> made{"cp"};
  for (size_t i = 1; i < words.size(); ++i) {
    const bool is_option = words[i].size() > 1 && words[i].starts_with('-');
    (is_option ? made : names).push_back(std::move(words[i]));
  }
  if (names.empty()) return PrintUsageError(words.front() + ": a file is missing; `help` explains");
  if (names.size() == 1) names.emplace_back(".");
  const std::string target = std::move(names.back());
  names.pop_back();
  for (const std::string& name : names) made.push_back(gets ? place_.UrlOf(name) : name);
  made.push_back(gets ? target : place_.UrlOf(target));
  return RunWords(std::move(made));
}

// Runs the program with these words.
int Shell::RunWords(std::vector<std::string> words) {
  words.insert(words.begin(), "penstock");
  words.insert(words.begin() + 2, inherited_.begin(), inherited_.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // An interrupt of the terminal ends the command. An interactive shell ignores it.
  posix_spawnattr_t attributes{};
  sigset_t defaults{};
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  // The lines of a pipe are for the shell alone.
  posix_spawn_file_actions_t files{};
  posix_spawn_file_actions_init(&files);
  if (!is_interactive_) posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/proc/self/exe", &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  if (error == 0) {
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (error != 0) return PrintError(fmt::format("{}: {}", words[1], DescribeErrno(error)));
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  return WEXITSTATUS(status);
}

// ---- lines ----

#ifdef PENSTOCK_LIBEDIT
// libedit calls functions without arguments of ours.
Shell* completing = nullptr;

char* NextMatch(const char* word, int state) {
  static std::vector<std::string> matches;
  static size_t next = 0;
  if (state == 0) {
    matches = completing->Complete(word, rl_point == static_cast<int>(std::strlen(word)));
    next = 0;
  }
  return next < matches.size() ? ::strdup(matches[next++].c_str()) : nullptr;
}

char** Matches(const char* word, int, int) {
  rl_attempted_completion_over = 1;
  // A directory may be followed by a name in it.
  rl_completion_append_character = '\0';
  return rl_completion_matches(word, &NextMatch);
}
#endif

std::optional<std::string> Shell::ReadLine() {
#ifdef PENSTOCK_LIBEDIT
  if (is_interactive_) {
    char* const line = ::readline(fmt::format("penstock:{}> ", place_.path()).c_str());
    if (!line) return std::nullopt;
    std::string text = line;
    std::free(line);  // NOLINT(cppcoreguidelines-no-malloc): libedit has allocated it
    if (!text.empty()) ::add_history(text.c_str());
    return text;
  }
#endif
  if (is_interactive_) {
    if (PrintOutput(fmt::format("penstock:{}> ", place_.path())) != 0) return std::nullopt;
  }
  std::string text;
  if (!std::getline(std::cin, text)) return std::nullopt;
  return text;
}

std::vector<std::string> Shell::Complete(const std::string& word, bool is_command) {
  std::vector<std::string> matches;
  if (is_command) {
    std::vector<std::string> names{"cd", "pwd", "lcd", "lpwd", "get", "put", "help", "exit"};
    for (const CommandFacts& command : commands_) names.push_back(command.name);
    for (const std::string& name : names) {
      if (name.starts_with(word)) matches.push_back(name);
    }
    return matches;
  }
  const size_t slash = word.rfind('/');
  const std::string above = slash == word.npos ? "" : word.substr(0, slash + 1);
  const std::string begin = word.substr(above.size());
  // An error gives no matches, and no message in the middle of a line.
  const auto complete = [&](ClientRuntime&, Mounts& mounts,
                            const std::vector<client::Url>& urls) -> Task<Result<void>> {
    const auto at = co_await mounts.At(urls.front());
    if (!at) co_return Result<void>();
    const auto node = co_await at->Resolve();
    if (!node || !IsDirectory(node->attributes)) co_return Result<void>();
    const auto add = [&](const client::Entry& entry) {
      if (!entry.name.starts_with(begin)) return;
      const bool is_directory = entry.is_referral || (entry.attributes && IsDirectory(*entry.attributes));
      matches.push_back(above + entry.name + (is_directory ? "/" : " "));
    };
    (void)co_await at->mount->List(node->handle, at->name, add);
    co_return Result<void>();
  };
  RunWithMounts({place_.UrlOf(above.empty() ? "." : above)}, options_, complete);
  std::ranges::sort(matches);
  return matches;
}

int Shell::Run() {
  // An interrupt ends the program while it waits for a server that does not answer.
  const int begin_code = CheckDirectory(place_.path());
  if (begin_code != 0) return begin_code;
#ifdef PENSTOCK_LIBEDIT
  completing = this;
  rl_attempted_completion_function = &Matches;
#endif
  if (is_interactive_) std::signal(SIGINT, SIG_IGN);
  while (!ended_) {
    const auto line = ReadLine();
    if (!line) break;
    const int line_code = RunLine(*line);
    code_ = ended_ ? code_ : line_code;
    if (options_.stops && code_ != 0) break;
  }
  if (is_interactive_ && !ended_) (void)PrintOutput("\n");
  return code_;
}

// The options of the shell's command line that its commands get.
std::vector<std::string> InheritedOptions(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->count() == 0 || option->get_positional() || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (name == "help" || name == "errexit") continue;
    for (const std::string& value : option->results()) words.push_back(fmt::format("--{}={}", name, value));
  }
  return words;
}

int RunShell(const CLI::App& program, const CLI::App& command, const ShellOptions& options) {
  const auto url = ParseUrl(options.url, options);
  if (!url) return PrintUsageError(url.error().message);
  std::vector<CommandFacts> commands = FactsOf(program);
  // The first is the program itself.
  commands.erase(commands.begin());
  Shell shell(options, *url, std::move(commands), InheritedOptions(command));
  return shell.Run();
}

}  // namespace

Command AddShell(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("shell", "Run commands in a directory of an NFS server, interactively");
  const auto options = std::make_shared<ShellOptions>();
  command->add_option("URL", options->url, "The directory at which the shell begins")->required();
  command->add_flag("-e,--errexit", options->stops, "End after the first command that fails");
  AddClientOptions(*command, *options);
  SetFooter(*command, "`help` in the shell lists its commands. Without a terminal, they come from standard input.",
            {"# Look around on a server", "penstock shell 'nfs://server.example/photos?proto=rdma'",
             "# End after the first command that fails", "penstock shell -e nfs://server.example/photos"});
  return {command, [&program, command, options] { return RunShell(program, *command, *options); }};
}

}  // namespace penstock::cli
