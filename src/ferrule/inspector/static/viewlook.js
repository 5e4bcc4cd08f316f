// How the host looks, as views get it: the variables that MCP Apps 2026-01-26 names, for both themes.

const COLORS = {
  background: {
    primary: ["#ffffff", "#1d1e1c"], secondary: ["#f6f6f4", "#222421"], tertiary: ["#ecece7", "#2a2c28"], inverse: ["#1d1e1c", "#f6f6f4"],
    ghost: ["rgb(0 0 0 / 0)", "rgb(0 0 0 / 0)"], info: ["#e3edfb", "#18283f"], danger: ["#fbe9e6", "#3d211e"], success: ["#e2f3e8", "#17301f"],
    warning: ["#fdf1d8", "#362a12"], disabled: ["#ecece7", "#2a2c28"],
  },
  text: {
    primary: ["#1d1e1c", "#e9e9e4"], secondary: ["#4a4c46", "#c3c5bc"], tertiary: ["#5f615b", "#a3a59c"], inverse: ["#ffffff", "#1d1e1c"],
    info: ["#1d58a8", "#8cb8f2"], danger: ["#a8261c", "#f2938a"], success: ["#1c6b3c", "#7bcf9a"], warning: ["#865400", "#ecc069"],
    disabled: ["#8a8c85", "#6f716a"], ghost: ["#5f615b", "#a3a59c"],
  },
  border: {
    primary: ["#dfdfd9", "#33352f"], secondary: ["#c3c3bb", "#4a4d45"], tertiary: ["#ecece7", "#2a2c28"], inverse: ["#1d1e1c", "#e9e9e4"],
    ghost: ["rgb(0 0 0 / 0)", "rgb(0 0 0 / 0)"], info: ["#1d58a8", "#8cb8f2"], danger: ["#a8261c", "#f2938a"], success: ["#1c6b3c", "#7bcf9a"],
    warning: ["#865400", "#ecc069"], disabled: ["#dfdfd9", "#33352f"],
  },
  ring: {
    primary: ["#7c5205", "#e5b95f"], secondary: ["#c3c3bb", "#4a4d45"], inverse: ["#ffffff", "#1d1e1c"], info: ["#1d58a8", "#8cb8f2"],
    danger: ["#a8261c", "#f2938a"], success: ["#1c6b3c", "#7bcf9a"], warning: ["#865400", "#ecc069"],
  },
};
const SIZES = { text: { xs: 12, sm: 13, md: 14, lg: 16 }, heading: { xs: 14, sm: 15, md: 17, lg: 20, xl: 24, "2xl": 30, "3xl": 36 } };

function variables() {
  const made = {
    "--font-sans": "system-ui, sans-serif", "--font-mono": "ui-monospace, monospace",
    "--font-weight-normal": "400", "--font-weight-medium": "500", "--font-weight-semibold": "600", "--font-weight-bold": "700",
    "--border-radius-xs": "2px", "--border-radius-sm": "4px", "--border-radius-md": "6px", "--border-radius-lg": "8px",
    "--border-radius-xl": "12px", "--border-radius-full": "9999px", "--border-width-regular": "1px",
    "--shadow-hairline": "0 0 0 1px rgb(0 0 0 / 0.08)", "--shadow-sm": "0 1px 2px rgb(0 0 0 / 0.1)",
    "--shadow-md": "0 2px 8px rgb(0 0 0 / 0.14)", "--shadow-lg": "0 8px 30px rgb(0 0 0 / 0.18)",
  };
  for (const [kind, names] of Object.entries(COLORS)) {
    for (const [name, [light, dark]] of Object.entries(names)) made[`--color-${kind}-${name}`] = `light-dark(${light}, ${dark})`;
  }
  for (const [kind, sizes] of Object.entries(SIZES)) {
    for (const [name, pixels] of Object.entries(sizes)) {
      made[`--font-${kind}-${name}-size`] = `${pixels}px`;
      made[`--font-${kind}-${name}-line-height`] = kind === "text" ? "1.5" : "1.25";
    }
  }
  return made;
}

export const STYLES = { variables: variables() };
