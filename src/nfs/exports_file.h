// The operator's export tables in the syntax of exports(5): /etc/exports and /etc/exports.d/*.exports.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "nfs/export_options.h"

namespace penstock::nfs {

// The exports of some tables, in the operator's order: one for each path, with the clients of all its lines.
class ExportsFiles {
 public:
  // Reads a table, or all tables of a directory whose names end in ".exports" and do not begin with a dot, ordered by
  // name. Mistakes become findings; the rest of the table is still read. A file that cannot be read is a mistake.
  void Read(const std::filesystem::path& path);
  // Parses the text of a table. `name` is for findings.
  //
  // A line exports the directory of its path, or PATH=ceph:/path a directory of CephFS as PATH.
  //
  // Without options, clients get those of exports(5): ro, root_squash, secure, sync.
  void Parse(std::string_view text, const std::string& name);
  // Ends the reading: compares what several lines say about one export.
  void Finish();

  std::vector<ExportSpec>& exports() { return exports_; }
  std::vector<Finding>& findings() { return findings_; }

 private:
  void ReadTable(const std::filesystem::path& path);
  // One line of a table with its continuations.
  struct Line;
  void ParseLine(Line& line);
  void AddClient(Line& line, ExportSpec& to, const std::string& word, const std::vector<std::string>& defaults);
  ExportSpec& ExportOf(const Line& line, const std::string& path, const std::string& directory);
  void Complain(const Line& line, Severity severity, std::string message);

  std::vector<ExportSpec> exports_;
  std::vector<Finding> findings_;
};

}  // namespace penstock::nfs
