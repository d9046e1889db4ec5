export function flowView() { return { load: async () => {}, draw: () => null }; }
