// Names of points, none on another or on a point: each is tried around its own; one that fits nowhere is left out.
const AROUND = [["middle", 0, -1], ["middle", 0, 1], ["start", 1, 0], ["end", -1, 0], ["start", 0.5, -1], ["end", -0.5, -1], ["start", 0.5, 1], ["end", -0.5, 1]];
const pen = document.createElement("canvas").getContext("2d");
function labelMarks(points, named, figure, { x: across, y: up, text }) {
  const [x, y] = ["x", "y"].map((name) => figure.scale(name).apply);
  const [{ range: [left, right] }, { range: [bottom, top] }] = [figure.scale("x"), figure.scale("y")];
  pen.font = "12px system-ui, sans-serif";
  const title = { left: 0, right: left + 70, top: 0, bottom: 18 };
  const taken = [title, ...points.map((point) => boxAt(x(point[across]), y(point[up]), 10, 10))];
  return named.flatMap((point) => {
    const name = shortened(text(point));
    const wide = pen.measureText(name).width + 4;
    for (const [textAnchor, aside, below] of AROUND) {
      const [dx, dy] = [aside * 9, below * 13];
      const middle = x(point[across]) + dx + { start: wide / 2, middle: 0, end: -wide / 2 }[textAnchor];
      const box = boxAt(middle, y(point[up]) + dy, wide, 15);
      if (box.left < left || box.right > right + 40 || box.top < top - 22 || box.bottom > bottom) continue;
      if (taken.some((other) => meet(box, other))) continue;
      taken.push(box);
      return [Plot.text([point], { x: across, y: up, text: () => name, dx, dy, textAnchor, fill: "currentColor", stroke: colour("--paper"), strokeWidth: 3 })];
    }
    return [];
  });
}
const boxAt = (x, y, wide, high) => ({ left: x - wide / 2, right: x + wide / 2, top: y - high / 2, bottom: y + high / 2 });
const meet = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
