// Where a difference holds, and which parameter makes it: slices of the queries, and the axes of a sweep.
function drawSlices() {
  const slices = summary.slices;
  const all = (slices?.comparisons ?? []).filter(({ difference }) => difference != null);
  const settings = [...new Set(all.map(({ setting }) => setting))];
  if (!settings.length) return put("slices-plot");
  const differs = settings.find((setting) => all.some((part) => part.setting === setting && part.difference !== 0));
  const setting = settings.includes(state.k) ? state.k : differs ?? settings[0];
  const parts = all.filter((part) => part.setting === setting);
  const baseline = plain(parts[0].baseline);
  const whole = summary.comparison.comparisons.find((part) => part.metric === slices.metric && part.setting === setting && part.baseline === parts[0].baseline);
  const domain = spread(whole?.difference == null ? parts : [...parts, whole]);
  const figures = slices.slicings.map((slicing) => {
    const rows = parts.filter((part) => part.slicing === slicing)
      .map((part) => ({ ...part, key: part.name, label: `${plain(part.name)} (${part.n})` }));
    if (!rows.length) return null;
    if (whole?.difference != null) rows.push({ ...whole, key: "\u0000all", label: `all (${whole.n})` });
    const figure = forest(rows, { label: `difference in ${slices.metric}`, size: SMALL, domain, title: `${plain(setting)} less ${baseline} by ${slicing}` });
    return made("div", {}, made("h3", {}, `by ${slicing}`), figure);
  });
  const select = made("select", { id: "choose-slices" });
  options(select, settings.indexOf(setting), settings, (place) => { state.k = settings[place]; writeFragment(); drawSlices(); document.getElementById("choose-slices").focus(); });
  put("slices-plot",
    made("div", { class: "controls wide" }, made("label", {}, "Setting ", select), made("span", { class: "soft" }, `less ${baseline}; how many queries in brackets; the intervals hold simultaneously`)),
    ...figures);
}
function drawAxes() {
  const axes = summary.axes;
  if (!axes) return put("axes-plot");
  const known = (part) => part.difference != null;
  const domain = spread(axes.effects.filter(known));
  const figures = [...new Set(axes.effects.filter(known).map(({ parameter }) => parameter))].map((parameter) => {
    const rows = axes.effects.filter((part) => known(part) && part.parameter === parameter)
      .map((row, place) => ({ ...row, label: plain(row.label), key: String(place) }));
    const figure = forest(rows, { label: `effect on ${axes.metric}`, size: SMALL, domain, title: `Effect of ${plain(parameter)} on ${axes.metric}, all else equal` });
    return made("div", {}, made("h3", {}, plain(parameter)), figure);
  });
  put("axes-plot", ...figures);
}
