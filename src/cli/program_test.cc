#include "cli/program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/data.h"
#include "base/log.h"
#include "cli/bench_operation.h"

namespace penstock::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Port 1 of this host: a command that fails to refuse its options would report the connection instead.
constexpr char kUrl[] = "nfs://127.0.0.1:1/file?timeout=1";

struct Outcome {
  int code = 0;
  std::string output;
  std::string errors;
};

class ProgramTest : public testing::Test {
 protected:
  // Undoes the lasting effects of RunProgram().
  ~ProgramTest() override {
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    log::SetSink({});
  }

  static Outcome Run(const std::vector<std::string>& arguments) {
    std::vector<const char*> texts = {"penstock"};
    for (const std::string& argument : arguments) texts.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.code = RunProgram(static_cast<int>(texts.size()), texts.data(), "1.2.3");
    outcome.output = testing::internal::GetCapturedStdout();
    outcome.errors = testing::internal::GetCapturedStderr();
    return outcome;
  }

  // Expects exit code 1, this line on stderr, and no other output.
  static void ExpectError(const std::vector<std::string>& arguments, const std::string& message) {
    ExpectLine(arguments, 1, message);
  }

  // The same with exit code 2.
  static void ExpectMistake(const std::vector<std::string>& arguments, const std::string& message) {
    ExpectLine(arguments, 2, message);
  }

  // Expects that the parser refuses the command line of the command `name` with exit code 2 and one line on stderr that
  // contains `text`. An empty name stands for the program.
  static void ExpectUsageError(const std::string& name, const std::vector<std::string>& arguments,
                               const std::string& text) {
    const Outcome outcome = Run(arguments);
    const std::string command = name.empty() ? "penstock" : "penstock " + name;
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(arguments);
    EXPECT_THAT(outcome.errors, StartsWith(command + ": "));
    EXPECT_THAT(outcome.errors, HasSubstr(text));
    EXPECT_THAT(outcome.errors, EndsWith("; see " + command + " --help\n"));
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
  }
  static void ExpectUsageError(const std::vector<std::string>& arguments, const std::string& text) {
    ExpectUsageError(arguments.front(), arguments, text);
  }

 private:
  static void ExpectLine(const std::vector<std::string>& arguments, int code, const std::string& message) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, code) << message;
    EXPECT_EQ(outcome.errors, "penstock: " + message + "\n");
    EXPECT_EQ(outcome.output, "");
  }
};

TEST_F(ProgramTest, RequiresACommand) {
  ExpectUsageError("", {}, "A command is required");
  ExpectUsageError("", {"-v"}, "A command is required");
}

TEST_F(ProgramTest, NamesAnUnknownCommand) {
  ExpectUsageError("", {"unmount"}, "unknown command 'unmount'");
  ExpectUsageError("", {"-v", "unmount", kUrl}, "unknown command 'unmount'");
  ExpectUsageError("", {"mkdri", kUrl}, "unknown command 'mkdri' (is mkdir meant?)");
}

TEST_F(ProgramTest, NamesTheUnknownOptionBeforeAMissingArgument) {
  ExpectUsageError({"ls", "--colour=red"}, "unknown option --colour;");
  ExpectUsageError({"chmod", "--sek=sys", "644"}, "unknown option --sek (is --sec meant?)");
}

TEST_F(ProgramTest, AMistakeOfTheCommandLineLetsNobodyControlTheTerminal) {
  ExpectUsageError("", {"\x1b[2J\n"}, "unknown command '?[2J?'");
}

TEST_F(ProgramTest, OutputThatAFullDiskLosesIsAnError) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const FileDescriptor kept(::dup(STDOUT_FILENO));
  const std::vector<std::vector<const char*>> command_lines = {
      {"penstock", "--help"}, {"penstock", "--version"}, {"penstock", "completion", "bash"}, {"penstock", "devices"}};
  for (const std::vector<const char*>& words : command_lines) {
    testing::internal::CaptureStderr();
    std::fflush(stdout);
    ::dup2(full.get(), STDOUT_FILENO);
    const int code = RunProgram(static_cast<int>(words.size()), words.data(), "1.2.3");
    ::dup2(kept.get(), STDOUT_FILENO);
    std::clearerr(stdout);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "penstock: standard output: No space left on device\n")
        << words[1];
    EXPECT_EQ(code, 1) << words[1];
  }
}

TEST_F(ProgramTest, PrintsItsVersion) {
  const Outcome outcome = Run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output, "1.2.3\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(ProgramTest, TheHelpNamesEachCommand) {
  const Outcome outcome = Run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.errors, "");
  for (const char* const command : {"serve", "ping", "ls", "cat", "cp", "mkdir", "rm", "rmdir", "mv", "ln", "chmod",
                                    "bench", "devices", "completion", "check-config"}) {
    EXPECT_THAT(outcome.output, HasSubstr(std::string("\n  ") + command + " "));
  }
}

TEST_F(ProgramTest, EachCommandExplainsItsOwnOptions) {
  for (const auto& [command, option] :
       {std::pair("serve", "--export"), std::pair("check-config", "--sample"), std::pair("ping", "--count"),
        std::pair("ls", "-l"), std::pair("cat", "--trace"), std::pair("cp", "--in-place"), std::pair("mkdir", "--mode"),
        std::pair("rm", "--vers"), std::pair("rmdir", "--vers"), std::pair("mv", "--no-clobber"),
        std::pair("ln", "--symbolic"), std::pair("chmod", "MODE"), std::pair("bench", "--server-pid"),
        std::pair("devices", "RDMA devices")}) {
    const Outcome outcome = Run({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.output, HasSubstr(option)) << command;
  }
}

TEST_F(ProgramTest, RefusesAnUnknownOption) {
  ExpectUsageError({"ls", kUrl, "--colour"}, "unknown option --colour;");
  ExpectUsageError({"ls", kUrl, "-z"}, "unknown option -z;");
  ExpectUsageError({"devices", "mlx5_0"}, "unexpected argument 'mlx5_0'");
}

TEST_F(ProgramTest, RefusesASecondUrlWhereOneIsExpected) {
  for (const char* const command : {"ping", "bench"}) {
    ExpectUsageError({command, kUrl, "nfs://second/"}, "nfs://second/");
  }
}

TEST_F(ProgramTest, EachCommandRequiresItsArguments) {
  for (const char* const command :
       {"ping", "ls",   "cat",  "mkdir", "rm",   "rmdir", "mv",      "bench",   "stat",     "df",
        "du",   "find", "tree", "head",  "tail", "touch", "getfacl", "setfacl", "getfattr", "shell"}) {
    ExpectUsageError({command}, "URL is required");
  }
  ExpectUsageError({"cp"}, "FILE is required");
  ExpectMistake({"cp", kUrl}, "cp: needs a source and a target");
  ExpectUsageError({"sync", kUrl}, "TO is required");
  for (const char* const command : {"mv", "ln"}) ExpectUsageError({command, kUrl}, "At least 2 required");
  ExpectUsageError({"chmod", "644"}, "URL is required");
}

TEST_F(ProgramTest, CommandsThatLookNameAWrongValue) {
  ExpectMistake({"find", "--type", "fx", kUrl}, "--type fx: a type is one of f d l b c s p");
  ExpectMistake({"find", "--size", "+1Z", kUrl}, "+1Z: not a number with + for more, - for less, or no sign for equal");
  ExpectMistake({"head", "-n", "-3", kUrl}, "-3: not a number of lines or octets");
  ExpectMistake({"tail", "-c", "x", kUrl}, "x: not a number of lines or octets");
  ExpectMistake({"truncate", "-s", "1Q", kUrl}, "1Q: not a size such as 4096, 1M, +1G or -512");
  ExpectMistake({"touch", "-d", "yesterday", kUrl},
                "yesterday: neither a date such as \"2026-11-28 02:15\" nor @SECONDS since 1970");
  ExpectMistake({"chown", ":", kUrl}, "chown: OWNER is a user, a user and a group as USER:GROUP, or a group as :GROUP");
  ExpectMistake({"cmp", "one", "other"}, "cmp: one of the two must be an nfs:// URL");
  ExpectMistake({"stat", "-c", "%q", kUrl}, "%q: a format has % and one of n N s b B o a A F h i d U G x y z X Y Z %");
  ExpectMistake({"setfacl", kUrl}, "setfacl: one of --set, --set-file, -m, -x, -b and -k is required");
  ExpectMistake({"setfattr", kUrl}, "setfattr: one of -n and -x is required");
  ExpectMistake({"getfattr", "-n", "color", kUrl}, "color: the name of an attribute begins with user.");
  ExpectMistake({"setfattr", "-n", "user.a", "-v", "0x1", kUrl},
                "0x1: neither a text, 0x and hexadecimal digits, nor 0s and base64");
  ExpectMistake({"du", "-s", "-a", kUrl}, "du: -s and -a contradict each other");
  ExpectMistake({"ln", "-s", "text", kUrl, kUrl}, "ln -s: give the text of the link, and the URL of the link");
}

TEST_F(ProgramTest, EachCommandNamesATextThatIsNoUrl) {
  const std::string message = "/local: not an nfs:// URL";
  for (const char* const command : {"ping", "ls", "cat", "mkdir", "rm", "rmdir", "bench"}) {
    ExpectMistake({command, "/local"}, message);
  }
  ExpectMistake({"mv", "/local", "/to"}, message);
  ExpectMistake({"ln", "/local", "/to"}, message);
  ExpectMistake({"ln", "-s", kUrl, "/local"}, message);
  ExpectMistake({"chmod", "644", "/local"}, message);
}

TEST_F(ProgramTest, ReportsEachMistakeOfAUrl) {
  for (const auto& [url, mistake] :
       {std::pair("http://host/", "not an nfs:// URL"),
        std::pair("nfs://", "is not of the form nfs://HOST[:PORT]/PATH"),
        std::pair("nfs://host:0/", "is not of the form nfs://HOST[:PORT]/PATH"),
        std::pair("nfs://host/%2", "has a malformed % escape in its path"),
        std::pair("nfs://host/?proto=udp", "proto must be tcp or rdma: Penstock has no NFS over UDP"),
        std::pair("nfs://host/?uid=root", "uid must be a number"),
        std::pair("nfs://host/?sort", "unknown option 'sort' (is port meant?)")}) {
    ExpectMistake({"cat", url}, std::string(url) + ": " + mistake);
  }
}

TEST_F(ProgramTest, DoesNothingIfOneOfSeveralUrlsIsMalformed) {
  for (const char* const command : {"cat", "mkdir", "rm", "rmdir"}) {
    ExpectMistake({command, kUrl, "nfs:/host"}, "nfs:/host: not an nfs:// URL");
  }
  ExpectMistake({"chmod", "600", kUrl, "nfs:/host"}, "nfs:/host: not an nfs:// URL");
}

TEST_F(ProgramTest, RefusesATextThatIsNoMode) {
  for (const std::string mode : {"8", "79", "10000", "0x1ff", "u+q", "+755", " 755", "755 ", "7.5", ""}) {
    const std::string message =
        mode + ": a mode is an octal number of at most four digits, or changes such as u+x,g=rw";
    ExpectMistake({"chmod", mode, kUrl}, message);
    if (!mode.empty()) ExpectMistake({"mkdir", "--mode", mode, kUrl}, message);
  }
}

// The command reports the URL only after it has accepted the mode.
TEST_F(ProgramTest, AcceptsOctalModesUpToAllTwelveBits) {
  for (const std::string mode : {"0", "644", "0644", "7777", "007777"}) {
    ExpectMistake({"chmod", mode, "/local"}, "/local: not an nfs:// URL");
    ExpectMistake({"mkdir", "-m", mode, "/local"}, "/local: not an nfs:// URL");
  }
}

TEST_F(ProgramTest, CopiesRequireAUrl) {
  ExpectMistake({"cp", "a", "b"}, "cp: at least one of the files must be an nfs:// URL, the others may be local");
  ExpectMistake({"sync", "a", "b"}, "sync: at least one of the two must be an nfs:// URL");
}

TEST_F(ProgramTest, CopyOpensTheLocalSourceBeforeItConnects) {
  ExpectError({"cp", "/no such folder/file", kUrl}, "/no such folder/file: No such file or directory");
}

TEST_F(ProgramTest, CopyReportsAMalformedUrlOnEitherSide) {
  ExpectMistake({"cp", "nfs://host/?vers=2", "file"},
                "nfs://host/?vers=2: vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01");
  ExpectMistake({"cp", "/no such folder/file", "nfs://host/?vers=2"},
                "nfs://host/?vers=2: vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01");
}

TEST_F(ProgramTest, RefusesNumbersOutsideTheirRange) {
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{"cp", "--in-flight=0", "file", kUrl}, "--in-flight: 0 is not a number from 1 to 64"},
      {{"cp", "--in-flight=65", "file", kUrl}, "--in-flight: 65 is not a number from 1 to 64"},
      {{"bench", "--depth=1,0", kUrl}, "--depth: 0 is not a number from 1 to 1024"},
      {{"bench", "--depth=1025", kUrl}, "--depth: 1025 is not a number from 1 to 1024"},
      {{"bench", "--seconds=0", kUrl}, "--seconds: 0 is not a number from 0.01 to 3600"},
      {{"bench", "--seconds=nan", kUrl}, "--seconds: nan is not a number from 0.01 to 3600"},
      {{"bench", "--size=1023KiB", kUrl}, "--size: 1047552 is not a number from 1048576 to 1099511627776"},
      {{"bench", "--size=2TiB", kUrl}, "--size: 2199023255552 is not a number from"},
  };
  for (const auto& [arguments, text] : wrong) ExpectUsageError(arguments, text);
}

TEST_F(ProgramTest, RefusesTextInPlaceOfANumber) {
  ExpectUsageError({"ping", "--count=many", kUrl}, "--count: many is not a number");
  ExpectUsageError({"ping", "--count=-1", kUrl}, "--count: -1 is not a number");
  ExpectUsageError({"ping", "--interval=1s", kUrl}, "--interval: 1s is not a number");
  ExpectUsageError({"cp", "--jobs=x", "file", kUrl}, "--jobs: x is not a number from 1 to 1024");
  ExpectUsageError({"cp", "--jobs"}, "--jobs: a value is missing");
  ExpectUsageError({"bench", "--server-pid=self", kUrl}, "--server-pid: self is not a number");
}

TEST_F(ProgramTest, BenchRefusesAnUnknownOperation) {
  ExpectMistake({"bench", "--ops=null,erase", kUrl}, fmt::format("--ops erase: not one of {}", kOperationNames));
}

// Process IDs of Linux end at 4194304.
TEST_F(ProgramTest, BenchRefusesAServerProcessThatDoesNotExist) {
  ExpectMistake({"bench", "--server-pid=4194305", kUrl}, "--server-pid 4194305: no such process on this machine");
}

TEST_F(ProgramTest, EachClientCommandReportsATraceThatItCannotWrite) {
  const std::string message = "cannot write the trace /no such folder/t: No such file or directory";
  for (const char* const command : {"ping", "ls", "cat", "mkdir", "rm", "rmdir"}) {
    ExpectError({command, "--trace=/no such folder/t", kUrl}, message);
  }
}

TEST_F(ProgramTest, ServeReportsAMissingDirectoryAndAWrongAddress) {
  ExpectError({"serve"}, "serve: name a directory, an --export PATH=DIR, or a table of --exports");
  ExpectError({"serve", "/srv", "--listen=localhost"}, "--listen localhost: not an IP address");
  ExpectError({"serve", "--export=/a"}, "export \"/a\": write PATH=DIR[:options], for example /data=/srv/data:ro");
}

TEST_F(ProgramTest, AcceptsTheVerboseOptionBeforeAndAfterTheCommand) {
  ExpectMistake({"-v", "-v", "ls", "/local"}, "/local: not an nfs:// URL");
  EXPECT_TRUE(log::debugging(log::ModuleHere()));
  ExpectMistake({"ls", "-vv", "/local"}, "/local: not an nfs:// URL");
  EXPECT_TRUE(log::debugging(log::ModuleHere()));
  ExpectMistake({"ls", "/local", "-v"}, "/local: not an nfs:// URL");
  EXPECT_FALSE(log::debugging(log::ModuleHere()));
}

TEST_F(ProgramTest, IgnoresTheSignalsOfClosedPipesAndLargeFiles) {
  Run({"ls", "/local"});
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    struct sigaction action{};
    ASSERT_EQ(::sigaction(signal, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_IGN);
  }
}

}  // namespace
}  // namespace penstock::cli
