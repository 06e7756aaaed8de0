//===- WhatIf.cpp - A table of plans over dimensions ----------------------===//

#include "forebay/Pipelines/Compile.h"

#include "forebay/Support/Output.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <set>

using namespace mlir;
using namespace forebay;

static constexpr size_t kMaxRows = 1000;

bool forebay::parseWhatIf(StringRef text, const ImportOptions &import, std::vector<DimValues> &dims, Diagnostics &diags) {
  std::string where = ("--what-if=" + text).str();
  StringRef hint = "for example --what-if=\"batch=1,2,4 seq=4096,16384\"";
  auto fail = [&](const Twine &why) {
    diags.error(where, why).note(hint);
    return false;
  };
  SmallVector<StringRef> parts;
  llvm::SplitString(text, parts);
  if (parts.empty())
    return fail("names no dimension");
  size_t rows = 1;
  for (StringRef part : parts) {
    StringRef name = part.rsplit('=').first, list = part.rsplit('=').second;
    if (name.size() == part.size() || name.empty())
      return fail("'" + part + "' is not of the form NAME=N,N,...");
    if (llvm::any_of(dims, [&](const DimValues &dim) { return dim.name == name; }))
      return fail("'" + part + "': '" + name + "' is given twice");
    if (llvm::any_of(import.dims, [&](auto &dim) { return dim.first == name; }))
      return fail("'" + part + "': --dim gives '" + name + "', too");
    DimValues dim{name.str(), {}};
    SmallVector<StringRef> numbers;
    list.split(numbers, ',');
    for (StringRef number : numbers) {
      int64_t value;
      if (number.getAsInteger(10, value) || value < 1)
        return fail("'" + part + "': '" + number + "' is not a number of 1 or more");
      dim.values.push_back(value);
    }
    rows *= dim.values.size();
    if (rows > kMaxRows)
      return fail("asks for more than " + Twine(kMaxRows) + " plans");
    dims.push_back(std::move(dim));
  }
  return true;
}

namespace {

struct Row {
  std::vector<int64_t> dims;
  std::optional<planning::PlanReport> report;
  std::string error;
};

/// Cells of a table, each column as wide as its widest.
class Table {
public:
  void add(std::vector<std::string> cells, std::string rest = "") { rows.push_back({std::move(cells), std::move(rest)}); }

  std::string text() const {
    std::vector<size_t> widths;
    for (auto &[cells, rest] : rows)
      for (size_t i = 0; i < cells.size(); ++i) {
        widths.resize(std::max(widths.size(), i + 1));
        widths[i] = std::max(widths[i], cells[i].size());
      }
    std::string out;
    for (auto &[cells, rest] : rows) {
      std::string line;
      for (size_t i = 0; i < cells.size(); ++i)
        line += std::string(i ? 2 : 0, ' ') + std::string(widths[i] - cells[i].size(), ' ') + cells[i];
      out += line + (rest.empty() ? "" : "  " + rest) + "\n";
    }
    return out;
  }

private:
  std::vector<std::pair<std::vector<std::string>, std::string>> rows;
};

} // namespace

/// Plans with the dimensions of `row`. Errors become part of it; a warning that has not been told yet is told.
static void planRow(const DialectRegistry &registry, CompileOptions options, const std::vector<DimValues> &dims, Row &row, std::set<std::string> &told, Diagnostics &diags) {
  for (auto [dim, value] : llvm::zip(dims, row.dims))
    options.import.dims.emplace_back(dim.name, value);
  std::string messages;
  llvm::raw_string_ostream os(messages);
  Diagnostics own(os);
  MLIRContext context(registry);
  row.report = reportPlan(context, options, own);
  SmallVector<StringRef> lines;
  StringRef(messages).split(lines, '\n', -1, false);
  for (StringRef line : lines) {
    if (line.consume_front("warning: ") && told.insert(line.str()).second)
      diags.warning("", line);
    if (line.consume_front("error: ") && row.error.empty())
      row.error = line.str();
  }
  assert((row.report || !row.error.empty()) && "no plan and nobody said why");
}

static std::string number(const char *pattern, double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(pattern, value);
  return text;
}

static std::string tableOf(const std::vector<DimValues> &dims, const std::vector<Row> &rows) {
  auto planned = llvm::find_if(rows, [](const Row &row) { return row.report.has_value(); });
  Table table;
  std::vector<std::string> head;
  for (const DimValues &dim : dims)
    head.push_back(dim.name);
  head.insert(head.end(), {"fits", "step", "tokens/s", "TFLOPS", "MFU"});
  if (planned != rows.end())
    for (const planning::SpaceReport &space : planned->report->spaces)
      head.push_back(space.name);
  head.insert(head.end(), {"step/bound"});
  table.add(head, "binding");
  for (const Row &row : rows) {
    std::vector<std::string> cells;
    for (int64_t value : row.dims)
      cells.push_back(std::to_string(value));
    if (!row.report) {
      cells.push_back("-");
      table.add(std::move(cells), row.error);
      continue;
    }
    const planning::PlanReport &report = *row.report;
    const planning::TimeReport time = report.time.value_or(planning::TimeReport());
    auto known = [&](const char *pattern, double value) { return value > 0 ? number(pattern, value) : std::string("-"); };
    cells.push_back(report.fits ? "yes" : "no");
    cells.push_back(report.time ? planning::readableSeconds(time.stepSeconds) : "-");
    cells.push_back(known("%.4g", time.tokensPerSecond));
    cells.push_back(known("%.4g", time.flops * 1e-12));
    cells.push_back(time.mfu() ? number("%.1f%%", 100 * *time.mfu()) : "-");
    for (const planning::SpaceReport &space : report.spaces)
      cells.push_back(planning::readableSize(space.peak));
    cells.push_back(report.time && report.boundSeconds ? number("%.3f", time.stepSeconds / *report.boundSeconds) : "-");
    std::string rest = report.boundSeconds ? report.binding : "-";
    if (!report.fits)
      rest += "; needs --memory=" + planning::smallestBudget(report);
    table.add(std::move(cells), std::move(rest));
  }
  return table.text();
}

static std::string jsonOf(const std::vector<DimValues> &dims, const std::vector<Row> &rows) {
  std::string out = "[";
  for (const Row &row : rows) {
    std::string values;
    for (auto [dim, value] : llvm::zip(dims, row.dims))
      values += (values.empty() ? "" : ", ") + planning::jsonText(dim.name) + ": " + std::to_string(value);
    std::string head = "{\n  \"dims\": {" + values + "},\n  \"error\": " + (row.report ? "null" : planning::jsonText(row.error));
    std::string object = row.report ? StringRef(planning::toJson(*row.report)).rtrim().str() : "{\n}";
    // The report's object with the two fields in front of its own.
    out += (out.size() > 1 ? ",\n" : "\n") + head + (row.report ? ",\n" : "\n") + object.substr(2);
  }
  return out + "\n]\n";
}

bool forebay::compileWhatIf(const DialectRegistry &registry, const CompileOptions &options, const std::vector<DimValues> &dims, Diagnostics &diags) {
  {
    MLIRContext context(registry);
    if (!checkOutputs(context, options, diags))
      return false;
  }
  size_t count = 1;
  for (const DimValues &dim : dims)
    count *= dim.values.size();
  std::vector<Row> rows(count);
  std::set<std::string> told;
  bool fits = false;
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    for (const DimValues &dim : llvm::reverse(dims)) {
      rows[i].dims.insert(rows[i].dims.begin(), dim.values[rest % dim.values.size()]);
      rest /= dim.values.size();
    }
    planRow(registry, options, dims, rows[i], told, diags);
    fits |= rows[i].report && rows[i].report->fits;
  }
  llvm::outs() << tableOf(dims, rows);
  if (!flushStdout(diags))
    return false;
  if (!options.json.empty() && !writeOutput("--json=", options.json, [&](llvm::raw_ostream &os) { os << jsonOf(dims, rows); }, diags))
    return false;
  if (!fits)
    diags.error("--what-if", "no row has a plan that fits").note("the table says why");
  return fits;
}
