// The commands of the program. Each takes its options, parsed, and gives an exit code: 0, or 1 after one line on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::cli {

struct PingOptions {
  std::string url;
  unsigned count = 4;
  unsigned interval_ms = 1000;
};
int Ping(const PingOptions& options);

struct ListOptions {
  std::string url;
  bool long_format = false;
};
int List(const ListOptions& options);

struct CatOptions {
  std::vector<std::string> urls;
};
int Cat(const CatOptions& options);

struct CopyCommandOptions {
  std::string from;
  std::string to;
  unsigned in_flight = 8;
  bool quiet = false;
};
int Copy(const CopyCommandOptions& options);

struct ServeOptions {
  std::string directory;
  std::vector<std::string> exports;
  std::string listen = "127.0.0.1";
  uint16_t tcp_port = 2049;
  uint16_t rdma_port = 20049;
  uint16_t mount_port = 20048;
  unsigned threads = 0;  // 0: one for each processor
  std::string state_directory;
};
int Serve(const ServeOptions& options);

}  // namespace penstock::cli
